//! The file of this machine that is copied to nodes: its checksum, its parts, and whether it changes meanwhile.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use muster_base::encode_hex;
use sha2::{Digest as _, Sha256};

/// Bytes that are read at once to compute a checksum.
const DIGEST_READ_BYTES: usize = 1024 * 1024;

/// Why a file of this machine cannot be copied.
#[derive(Debug, thiserror::Error)]
pub enum LocalFileError {
    /// It cannot be opened or read.
    #[error("cannot read {}", .0.display())]
    Read(PathBuf, #[source] io::Error),
    /// It is a directory, a device or something else.
    #[error("{} is not a regular file", .0.display())]
    Kind(PathBuf),
    /// It was written or replaced since the copy began.
    #[error("{} was changed while it was copied", .0.display())]
    Changed(PathBuf),
}

/// A file that is open for reading.
#[derive(Debug)]
pub struct LocalFile {
    /// Its path, as given.
    pub path: PathBuf,
    /// Its size in bytes.
    pub size: u64,
    /// Its SHA-256, in hexadecimal digits.
    pub sha256: String,
    /// Its permission bits.
    pub mode: u32,
    file: File,
    version: FileVersion,
}

/// Differs after each change of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileVersion {
    file: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileVersion {
    fn of_metadata(found: &Metadata) -> Self {
        Self {
            file: (found.dev(), found.ino()),
            size: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        }
    }
}

impl LocalFile {
    /// Opens the file and computes its checksum. Blocks while the whole file is read.
    pub fn open(path: &Path) -> Result<Self, LocalFileError> {
        let fail = |source| LocalFileError::Read(path.to_owned(), source);
        if !fs::metadata(path).map_err(fail)?.is_file() {
            return Err(LocalFileError::Kind(path.to_owned()));
        }
        let file = File::open(path).map_err(fail)?;
        let found = file.metadata().map_err(fail)?;
        if !found.is_file() {
            return Err(LocalFileError::Kind(path.to_owned()));
        }
        let (sha256, size) = digest_file(&file).map_err(fail)?;
        let opened = Self {
            path: path.to_owned(),
            size,
            sha256,
            mode: found.mode() & 0o777,
            file,
            version: FileVersion::of_metadata(&found),
        };
        opened.check_unchanged()?;
        Ok(opened)
    }

    /// The bytes of a part.
    pub(super) fn read_part(&self, offset: u64, length: u64) -> Result<Vec<u8>, LocalFileError> {
        let mut part = vec![0; usize::try_from(length).unwrap_or(0)];
        match self.file.read_exact_at(&mut part, offset) {
            Ok(()) => Ok(part),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(LocalFileError::Changed(self.path.clone()))
            }
            Err(source) => Err(LocalFileError::Read(self.path.clone(), source)),
        }
    }

    /// Fails if the file was written or replaced since it was opened.
    pub(super) fn check_unchanged(&self) -> Result<(), LocalFileError> {
        let found = fs::metadata(&self.path);
        let found = found.map_err(|source| LocalFileError::Read(self.path.clone(), source))?;
        if FileVersion::of_metadata(&found) == self.version && found.size() == self.size {
            return Ok(());
        }
        Err(LocalFileError::Changed(self.path.clone()))
    }
}

/// The SHA-256 of a file and its size, in parts, so that the memory does not grow with the file.
pub(super) fn digest_file(file: &File) -> io::Result<(String, u64)> {
    let (mut digest, mut offset) = (Sha256::new(), 0_u64);
    let mut buffer = vec![0; DIGEST_READ_BYTES];
    loop {
        let count = match file.read_at(&mut buffer, offset) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            result => result?,
        };
        if count == 0 {
            return Ok((encode_hex(digest.finalize()), offset));
        }
        digest.update(buffer.get(..count).unwrap_or_default());
        offset += count as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::{LocalFile, LocalFileError};

    #[test]
    fn changes_are_detected() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x");
        std::fs::write(&path, "hello\n").unwrap();
        let file = LocalFile::open(&path).unwrap();
        // As printed by `sha256sum`.
        assert!(file.sha256.starts_with("5891b5b522d5df08"), "{}", file.sha256);
        assert_eq!((file.size, file.read_part(4, 2).unwrap()), (6, b"o\n".to_vec()));
        file.check_unchanged().unwrap();
        std::fs::write(&path, "hi").unwrap();
        assert!(matches!(file.check_unchanged(), Err(LocalFileError::Changed(_))));
        assert!(matches!(file.read_part(0, 6), Err(LocalFileError::Changed(_))));
        assert!(matches!(LocalFile::open(directory.path()), Err(LocalFileError::Kind(_))));
        assert!(matches!(LocalFile::open("/nowhere/x".as_ref()), Err(LocalFileError::Read(..))));
    }
}
