//! File buckets: what files were before they were changed, by the checksum of their content, laid out as Puppet's are:
//! `BUCKET/b/a/7/8/1/6/b/f/ba7816bf.../contents` and, beside it, `paths` with every path that had this content.
//!
//! Two changes at the same time never lose a content; of a `paths` file the slower one's line is kept.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use muster_system::{FileAttributes, System, SystemError};

use super::digest::ChecksumKind;
use super::paths;

/// Where buckets are when nobody says otherwise.
pub const DEFAULT_BUCKET_DIRECTORY: &str = "/var/lib/muster/clientbucket";
/// The bucket that is there without being declared.
pub const PREDECLARED_BUCKET: &str = "puppet";
/// Longest content, and longest list of paths, that is read again, in bytes.
const MAX_CONTENT_BYTES: u64 = 1024 * 1024 * 1024;

/// The buckets of a catalog by their names.
#[derive(Debug)]
pub(crate) struct BucketRegistry {
    directory: PathBuf,
    declared: RefCell<BTreeMap<String, PathBuf>>,
}

impl Default for BucketRegistry {
    fn default() -> Self {
        Self::new(DEFAULT_BUCKET_DIRECTORY)
    }
}

impl BucketRegistry {
    /// Buckets without a path of their own share this directory.
    pub(crate) fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            declared: RefCell::default(),
        }
    }

    /// Makes a bucket known; without a path it is in the shared directory.
    pub(crate) fn declare_bucket(&self, name: &str, path: Option<&str>) {
        let path = path.map_or_else(|| self.directory.clone(), PathBuf::from);
        self.declared.borrow_mut().insert(name.to_owned(), path);
    }

    /// Where a bucket is; `None` for one that nobody declared.
    pub(crate) fn bucket_path(&self, name: &str) -> Option<PathBuf> {
        let declared = self.declared.borrow().get(name).cloned();
        declared.or_else(|| (name == PREDECLARED_BUCKET).then(|| self.directory.clone()))
    }
}

/// Keeps a content that was found at this path; returns its checksum. What is there already is not written again.
pub fn store_content(
    system: &dyn System,
    bucket: &Path,
    original: &Path,
    content: &[u8],
) -> Result<String, SystemError> {
    let sum = ChecksumKind::Sha256.hex_checksum(content);
    let place = content_directory(bucket, &sum);
    let with = |mode| FileAttributes {
        mode: Some(mode),
        ..FileAttributes::default()
    };
    make_dirs(system, &place, &with(0o750))?;
    let contents = place.join("contents");
    if system
        .metadata(&contents)?
        .is_none_or(|found| found.size != content.len() as u64)
    {
        system.write_file(&contents, content, &with(0o440))?;
    }
    let paths = place.join("paths");
    let mut lines = match system.read_file(&paths, MAX_CONTENT_BYTES) {
        Ok(lines) => lines,
        Err(error) if error.is_not_found() => Vec::new(),
        Err(error) => return Err(error),
    };
    let line = original.to_string_lossy();
    if !lines
        .split(|byte| *byte == b'\n')
        .any(|known| known == line.as_bytes())
    {
        lines.extend_from_slice(line.as_bytes());
        lines.push(b'\n');
        system.write_file(&paths, &lines, &with(0o640))?;
    }
    Ok(sum)
}

/// The content of that checksum, 64 hexadecimal digits; `None` when the bucket does not have it.
pub fn fetch_content(
    system: &dyn System,
    bucket: &Path,
    sum: &str,
) -> Result<Option<Vec<u8>>, SystemError> {
    match system.read_file(
        &content_directory(bucket, sum).join("contents"),
        MAX_CONTENT_BYTES,
    ) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

fn content_directory(bucket: &Path, sum: &str) -> PathBuf {
    let mut place = bucket.to_owned();
    for digit in sum.chars().take(8) {
        place.push(digit.to_string());
    }
    place.push(sum);
    place
}

/// All missing directories with these attributes: what files were is nobody else's business.
fn make_dirs(
    system: &dyn System,
    path: &Path,
    attributes: &FileAttributes,
) -> Result<(), SystemError> {
    if paths::follow_links(system, path)?.is_some() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        make_dirs(system, parent, attributes)?;
    }
    paths::create_dirs(system, path, attributes)
}
