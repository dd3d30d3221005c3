//! File buckets: previous contents of changed files by checksum, in Puppet's layout:
//! `BUCKET/b/a/7/8/1/6/b/f/ba7816bf.../contents` and, beside it, `paths` with every path that had this content.
//!
//! Concurrent writers never lose content; in a `paths` file the last writer wins.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use muster_system::error::found_or_none;
use muster_system::{FileAttributes, System, SystemResult};

use super::digest::ChecksumKind;
use super::paths;

pub const DEFAULT_BUCKET_DIRECTORY: &str = "/var/lib/muster/clientbucket";
pub const PREDECLARED_BUCKET: &str = "puppet";
/// Maximum size of a content or list of paths that is read back, in bytes.
const MAX_CONTENT_BYTES: u64 = 1024 * 1024 * 1024;

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
    /// Buckets without a path use this shared directory.
    pub(crate) fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), declared: RefCell::default() }
    }

    /// Registers a bucket; without a path it uses the shared directory.
    pub(crate) fn declare_bucket(&self, name: &str, path: Option<&str>) {
        let path = path.map_or_else(|| self.directory.clone(), PathBuf::from);
        self.declared.borrow_mut().insert(name.to_owned(), path);
    }

    /// Directory of a bucket; `None` if it is not declared.
    pub(crate) fn bucket_path(&self, name: &str) -> Option<PathBuf> {
        let declared = self.declared.borrow().get(name).cloned();
        declared.or_else(|| (name == PREDECLARED_BUCKET).then(|| self.directory.clone()))
    }
}

/// Stores content found at this path and returns its checksum. Existing content is not written again.
pub fn store_content(
    system: &dyn System,
    bucket: &Path,
    original: &Path,
    content: &[u8],
) -> SystemResult<String> {
    let sum = ChecksumKind::Sha256.hex_checksum(content);
    let directory = content_directory(bucket, &sum);
    make_dirs(system, &directory, &FileAttributes::with_mode(0o750))?;
    let contents = directory.join("contents");
    if system.metadata(&contents)?.is_none_or(|found| found.size != content.len() as u64) {
        system.write_file(&contents, content, &FileAttributes::with_mode(0o440))?;
    }
    let paths = directory.join("paths");
    let mut lines = found_or_none(system.read_file(&paths, MAX_CONTENT_BYTES))?.unwrap_or_default();
    let line = original.to_string_lossy();
    if !lines.split(|byte| *byte == b'\n').any(|existing| existing == line.as_bytes()) {
        lines.extend_from_slice(line.as_bytes());
        lines.push(b'\n');
        system.write_file(&paths, &lines, &FileAttributes::with_mode(0o640))?;
    }
    Ok(sum)
}

/// The content with that checksum of 64 hexadecimal digits; `None` if it is not in the bucket.
pub fn fetch_content(
    system: &dyn System,
    bucket: &Path,
    sum: &str,
) -> SystemResult<Option<Vec<u8>>> {
    let path = content_directory(bucket, sum).join("contents");
    found_or_none(system.read_file(&path, MAX_CONTENT_BYTES))
}

fn content_directory(bucket: &Path, sum: &str) -> PathBuf {
    let mut directory = bucket.to_owned();
    for digit in sum.chars().take(8) {
        directory.push(digit.to_string());
    }
    directory.push(sum);
    directory
}

/// Creates missing directories with these attributes, so that other users cannot read previous contents.
fn make_dirs(system: &dyn System, path: &Path, attributes: &FileAttributes) -> SystemResult<()> {
    if paths::follow_links(system, path)?.is_some() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        make_dirs(system, parent, attributes)?;
    }
    paths::create_dirs(system, path, attributes)
}
