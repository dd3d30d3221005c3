//! The tar layout of a bundle and its canonical encoding. Verifies no signatures.

use std::collections::BTreeMap;
use std::str;

use muster_wire::limits;
use tar::{Archive, Builder, EntryType, Header};

use super::error::BundleError;
use super::manifest::{BundleFile, BundleFileMode};

const MANIFEST_PATH: &str = "bundle.json";
const ACCOUNT_TOKEN_PATH: &str = "account.jwt";
const FILES_PREFIX: &str = "files/";

/// The parts of a bundle, borrowed from its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleArchive<'a> {
    /// The signed manifest.
    pub envelope: &'a [u8],
    /// The account's token.
    pub account: &'a str,
    /// The files by path. The paths are unique but otherwise unchecked.
    pub files: BTreeMap<&'a str, BundleFile<'a>>,
}

impl<'a> BundleArchive<'a> {
    /// Splits a bundle into its parts. Paths, digests and signatures are unchecked: see [`BundleArchive::verify_contents`].
    pub fn decode(bytes: &'a [u8]) -> Result<Self, BundleError> {
        if bytes.len() > limits::MAX_BUNDLE_BYTES {
            return Err(BundleError::TooLarge(bytes.len()));
        }
        let mut entries = read_entries(bytes)?.into_iter();
        let envelope = expect_entry(entries.next(), MANIFEST_PATH)?;
        let account = expect_entry(entries.next(), ACCOUNT_TOKEN_PATH)?;
        let account = str::from_utf8(account)
            .map_err(|_| BundleError::Shape("the account token is not UTF-8"))?;
        let mut files = BTreeMap::new();
        for (path, content) in entries {
            let path = path
                .strip_prefix(FILES_PREFIX)
                .ok_or(BundleError::Shape("a file is not below files/"))?;
            files.insert(path, content);
        }
        let bundle = Self { envelope, account, files };
        // Re-encoding detects duplicate names, another order, other metadata and trailing bytes.
        if bundle.encode()? != bytes {
            return Err(BundleError::Shape("the tar was not written by `rpc plugin pack`"));
        }
        Ok(bundle)
    }

    /// Writes the canonical tar of these parts: equal parts give equal bytes.
    pub fn encode(&self) -> Result<Vec<u8>, BundleError> {
        let mut builder = Builder::new(Vec::new());
        let mut append_file = |path: &str, content: BundleFile<'_>| {
            let mut header = Header::new_ustar();
            header.set_entry_type(EntryType::Regular);
            header.set_mode(content.mode.permission_bits());
            header.set_size(content.bytes.len() as u64);
            header.set_uid(0);
            header.set_gid(0);
            header.set_mtime(0);
            builder.append_data(&mut header, path, content.bytes)
        };
        let data = |bytes| BundleFile { mode: BundleFileMode::Data, bytes };
        append_file(MANIFEST_PATH, data(self.envelope))?;
        append_file(ACCOUNT_TOKEN_PATH, data(self.account.as_bytes()))?;
        for (path, content) in &self.files {
            append_file(&format!("{FILES_PREFIX}{path}"), *content)?;
        }
        Ok(builder.into_inner()?)
    }
}

/// Reads the raw entries. Tar extensions are not interpreted.
fn read_entries(bytes: &[u8]) -> Result<Vec<(&str, BundleFile<'_>)>, BundleError> {
    let mut entries = Vec::new();
    let mut archive = Archive::new(bytes);
    for entry in archive.entries()?.raw(true) {
        let entry = entry?;
        let header = entry.header();
        if header.entry_type() != EntryType::Regular {
            return Err(BundleError::Shape("an entry is not a regular file"));
        }
        let mode = match header.mode()? {
            0o644 => BundleFileMode::Data,
            0o755 => BundleFileMode::Program,
            _ => {
                return Err(BundleError::Shape("a file has a mode other than 0644 and 0755"));
            }
        };
        let path = entry_path(bytes, entry.raw_header_position())?;
        let content = slice_bytes(bytes, entry.raw_file_position(), entry.size())?;
        entries.push((path, BundleFile { mode, bytes: content }));
        if entries.len() > limits::MAX_BUNDLE_FILES + 2 {
            return Err(BundleError::Files(entries.len() - 2));
        }
    }
    Ok(entries)
}

/// The name in a header: its first 100 bytes, up to a NUL. The prefix field is ignored; re-encoding then refuses headers with a prefix.
fn entry_path(bytes: &[u8], header: u64) -> Result<&str, BundleError> {
    let name = slice_bytes(bytes, header, 100)?;
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    str::from_utf8(name).map_err(|_| BundleError::Shape("a file name is not UTF-8"))
}

fn slice_bytes(bytes: &[u8], from: u64, length: u64) -> Result<&[u8], BundleError> {
    let range = || {
        let from = usize::try_from(from).ok()?;
        let to = from.checked_add(usize::try_from(length).ok()?)?;
        bytes.get(from..to)
    };
    range().ok_or(BundleError::Shape("the tar is truncated"))
}

fn expect_entry<'a>(
    entry: Option<(&str, BundleFile<'a>)>,
    name: &'static str,
) -> Result<&'a [u8], BundleError> {
    match entry {
        Some((path, content)) if path == name => Ok(content.bytes),
        _ => Err(BundleError::Shape("the first entries are not bundle.json and account.jwt")),
    }
}
