//! Reads files of limited size, and lists the files of one kind in a configuration directory. Does not interpret their content.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub use muster_files::read_regular_file as read_bytes;

/// The content of a UTF-8 file of at most `limit` bytes.
pub(crate) fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    String::from_utf8(read_bytes(path, limit)?)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// `None` instead of the error that a file does not exist.
pub(crate) fn allow_missing<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The files with this extension, sorted by name. Skips hidden files, which editors create; a missing directory has no files.
pub fn list_files(directory: &Path, extension: &str) -> io::Result<Vec<PathBuf>> {
    let is_listed = |path: &PathBuf| {
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        !hidden && path.extension().is_some_and(|found| found == extension)
    };
    let mut paths = list_entries(directory)?;
    paths.retain(is_listed);
    Ok(paths)
}

/// Every entry of a directory, sorted by name; none if the directory does not exist.
pub(crate) fn list_entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let Some(entries) = allow_missing(fs::read_dir(directory))? else { return Ok(Vec::new()) };
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}
