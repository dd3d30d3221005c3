//! Parser for what a static catalog says of the sources of its files: `metadata` of a plain `file`, `recursive_metadata` of a recursive one.
//!
//! Takes what the agent needs and ignores the rest, such as the path of the file on the compiling machine. An invalid entry refuses the catalog.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use muster_system::FileAttributes;
use serde_json::{Map, Value as Json};

use crate::providers::digest::{ChecksumKind, parse_checksum};
use crate::resource::format_reference;
use crate::static_files::{StaticFile, StaticFileKind, StaticSources, StaticTree};

/// Maximum length of a path below a directory and of the target of a link in bytes, as in Linux.
const MAX_PATH_BYTES: usize = 4096;
const MAX_MODE: u32 = 0o7777;
/// Maximum number of characters of a value in an error.
const MAX_SHOWN_CHARS: usize = 100;

/// An entry as in the catalog.
type MetadataObject = Map<String, Json>;
/// Entries by the title of the `file`.
pub(super) type PlainMetadata = BTreeMap<String, MetadataObject>;
/// Lists of entries by the title of the `file`, then by source URL.
pub(super) type RecursiveMetadata = BTreeMap<String, BTreeMap<String, Vec<MetadataObject>>>;

/// An entry that is malformed, or that leads out of its directory.
#[derive(Debug, thiserror::Error)]
#[error("{location}: `{key}` {problem}")]
pub struct FileMetadataError {
    /// `the metadata of File[/etc/motd]`.
    location: String,
    key: String,
    /// The problem and the expected value.
    problem: String,
}

/// The sources of each `file`, by title.
pub(super) fn parse_static_sources(
    plain: &PlainMetadata,
    recursive: &RecursiveMetadata,
) -> Result<HashMap<String, Arc<StaticSources>>, FileMetadataError> {
    let mut all = HashMap::with_capacity(plain.len() + recursive.len());
    for (title, object) in plain {
        let location = format!("the metadata of {}", format_reference("file", title));
        let file = FileMetadataEntry { location: &location, object }.to_file()?;
        all.insert(title.clone(), Arc::new(StaticSources::Single(Arc::new(file))));
    }
    for (title, lists) in recursive {
        let mut trees = BTreeMap::new();
        for (source, list) in lists {
            let reference = format_reference("file", title);
            let location = format!("the metadata of {reference} for {}", shorten(source));
            trees.insert(source.clone(), parse_tree(&location, list)?);
        }
        all.insert(title.clone(), Arc::new(StaticSources::Trees(trees)));
    }
    Ok(all)
}

fn parse_tree(location: &str, list: &[MetadataObject]) -> Result<StaticTree, FileMetadataError> {
    let (mut top, mut entries) = (None, BTreeMap::new());
    for object in list {
        let entry = FileMetadataEntry { location, object };
        // Its URL follows from that of the directory.
        let file = Arc::new(StaticFile { source: None, ..entry.to_file()? });
        let earlier = match entry.relative_path()? {
            None => top.replace(file),
            Some(path) => entries.insert(path, file),
        };
        if earlier.is_some() {
            return Err(entry.invalid("relative_path", "has been listed before"));
        }
    }
    for path in entries.keys() {
        let is_link_or_file = |directory: &&std::path::Path| {
            let found = entries.get(*directory);
            found.is_some_and(|found| found.kind != StaticFileKind::Directory)
        };
        // An entry below a link would be written to wherever the link points.
        if let Some(other) = path.ancestors().skip(1).find(is_link_or_file) {
            let (path, other) = (path.to_string_lossy(), other.to_string_lossy());
            let problem =
                format!("{} is below {}, which is no directory", shorten(&path), shorten(&other));
            return Err(invalid_key(location.to_owned(), "relative_path", problem));
        }
    }
    let top = top.ok_or_else(|| {
        let problem = "`.` is missing: there must be an entry for the directory itself";
        invalid_key(location.to_owned(), "relative_path", problem)
    })?;
    Ok(StaticTree { top, entries })
}

struct FileMetadataEntry<'a> {
    /// For errors: `the metadata of File[/etc/motd]`.
    location: &'a str,
    object: &'a MetadataObject,
}

impl FileMetadataEntry<'_> {
    fn to_file(&self) -> Result<StaticFile, FileMetadataError> {
        let kind = match self.text("type")? {
            Some("file") => StaticFileKind::File { checksum: self.checksum()? },
            Some("directory") => StaticFileKind::Directory,
            Some("link") => StaticFileKind::Link { destination: self.destination()? },
            Some(other) => {
                let problem = format!("is {}, must be file, directory or link", shorten(other));
                return Err(self.invalid("type", problem));
            }
            None => return Err(self.invalid("type", "is missing, must be file, directory or link")),
        };
        let attributes = FileAttributes {
            mode: self.number("mode", MAX_MODE)?,
            uid: self.number("owner", u32::MAX)?,
            gid: self.number("group", u32::MAX)?,
        };
        Ok(StaticFile { source: self.text("source")?.map(str::to_owned), kind, attributes })
    }

    /// The path below the directory; `None` for the directory itself.
    fn relative_path(&self) -> Result<Option<PathBuf>, FileMetadataError> {
        let path = self.text("relative_path")?.unwrap_or(".");
        let is_name = |segment: &str| !matches!(segment, "" | "." | "..");
        if path == "." {
            return Ok(None);
        }
        if path.len() > MAX_PATH_BYTES || path.contains('\0') || !path.split('/').all(is_name) {
            let problem = format!(
                "must be a path below the directory without empty segments, `.` and `..`, of at most {MAX_PATH_BYTES} bytes"
            );
            return Err(self.invalid("relative_path", problem));
        }
        Ok(Some(PathBuf::from(path)))
    }

    fn destination(&self) -> Result<String, FileMetadataError> {
        let destination = self.text("destination")?.filter(|destination| {
            let is_short = destination.len() <= MAX_PATH_BYTES;
            is_short && !destination.is_empty() && !destination.contains('\0')
        });
        destination.map(str::to_owned).ok_or_else(|| {
            let problem = format!("of a link must be a path of 1 to {MAX_PATH_BYTES} bytes");
            self.invalid("destination", problem)
        })
    }

    /// The checksum of a file with its kind. A kind other than SHA-256 is accepted: only the resource fails.
    fn checksum(&self) -> Result<String, FileMetadataError> {
        let checksum = self.object.get("checksum").and_then(Json::as_object);
        let field = |name| checksum.and_then(|checksum| checksum.get(name)).and_then(Json::as_str);
        let (Some(kind), Some(value)) = (field("type"), field("value")) else {
            return Err(
                self.invalid("checksum", "of a file must have the strings `type` and `value`")
            );
        };
        let is_valid = value.starts_with(&format!("{{{kind}}}"))
            && (ChecksumKind::from_name(kind).is_none() || parse_checksum(value).is_some());
        if !is_valid {
            let problem = format!(
                "has the value {}, must be {} followed by lower-case hexadecimal digits",
                shorten(value),
                shorten(&format!("{{{kind}}}"))
            );
            return Err(self.invalid("checksum", problem));
        }
        Ok(value.to_owned())
    }

    /// A string; `None` if it is missing or null.
    fn text(&self, key: &str) -> Result<Option<&str>, FileMetadataError> {
        match self.object.get(key) {
            None | Some(Json::Null) => Ok(None),
            Some(Json::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.invalid(key, "must be a string or null")),
        }
    }

    /// A number; `None` if it is missing or null.
    fn number(&self, key: &str, max: u32) -> Result<Option<u32>, FileMetadataError> {
        match self.object.get(key) {
            None | Some(Json::Null) => Ok(None),
            Some(value) => {
                let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
                let number = number.filter(|number| *number <= max);
                number.map(Some).ok_or_else(|| {
                    self.invalid(key, format!("must be a number from 0 to {max}, or null"))
                })
            }
        }
    }

    fn invalid(&self, key: &str, problem: impl Into<String>) -> FileMetadataError {
        let path = self.object.get("relative_path").and_then(Json::as_str);
        let location = match path.filter(|path| *path != ".") {
            Some(path) => format!("{}, entry {}", self.location, shorten(path)),
            None => self.location.to_owned(),
        };
        invalid_key(location, key, problem)
    }
}

fn invalid_key(location: String, key: &str, problem: impl Into<String>) -> FileMetadataError {
    FileMetadataError { location, key: key.to_owned(), problem: problem.into() }
}

/// The quoted start of a text, on one line.
fn shorten(text: &str) -> String {
    let start: String = text.chars().take(MAX_SHOWN_CHARS).collect();
    format!("`{}`", start.escape_debug())
}
