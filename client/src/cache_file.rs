//! Reads and replaces files in the user's cache directory. Reads are size-limited; writes are atomic, in a private directory. The caller validates
//! the content.

use std::path::Path;

use muster_files::files::{self, FileAccessError};

/// Reads a file of at most `limit` bytes; `None` if it is missing, unreadable or longer: it is only a cache.
pub fn read_cache_file(path: &Path, limit: usize) -> Option<Vec<u8>> {
    files::read_bytes(path, limit).ok()
}

/// Replaces a file in a directory that only its owner can access. A concurrent reader sees either the old or the new content.
pub fn replace_cache_file(path: &Path, bytes: &[u8]) -> Result<(), FileAccessError> {
    if let Some(directory) = path.parent() {
        files::create_private_directory(directory)?;
    }
    files::replace_secret(path, bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::{read_cache_file, replace_cache_file};

    #[test]
    fn file_is_replaced_atomically_and_private() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("a/b");
        assert_eq!(read_cache_file(&path, 9), None);
        for text in [b"long ago".as_slice(), b"now"] {
            replace_cache_file(&path, text).unwrap();
            assert_eq!(read_cache_file(&path, 9).unwrap(), text);
        }
        assert_eq!(read_cache_file(&path, 2), None);
        let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        assert_eq!(std::fs::read_dir(scratch.path().join("a")).unwrap().count(), 1);
    }
}
