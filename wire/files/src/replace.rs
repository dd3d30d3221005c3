//! Atomic replacement of files.

use std::fs::{File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Replaces a file atomically and durably: after a crash, the old or the new content exists under this name, with these
/// permission bits. Writes a temporary file in the same directory, syncs it, renames it, and syncs the directory.
pub fn replace_file(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    StagedFile::write(path, content, mode)?.commit()
}

/// New content of a file under a temporary name. Removed unless it is committed, so that several files can be written before the first
/// is replaced.
#[derive(Debug)]
pub struct StagedFile {
    file: tempfile::NamedTempFile,
    path: PathBuf,
}

impl StagedFile {
    /// Writes and syncs the content in the directory of the file.
    pub fn write(path: &Path, content: &[u8], mode: u32) -> io::Result<Self> {
        let mut file = tempfile::NamedTempFile::new_in(parent_directory(path))?;
        file.write_all(content)?;
        // Set explicitly: a temporary file has 0600, and the umask does not apply here.
        file.as_file().set_permissions(Permissions::from_mode(mode))?;
        file.as_file().sync_all()?;
        Ok(Self { file, path: path.to_owned() })
    }

    /// The file that it will replace.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the file, and syncs its directory.
    pub fn commit(self) -> io::Result<()> {
        self.file.persist(&self.path).map_err(|error| error.error)?;
        sync_parent_directory(&self.path)
    }
}

/// Syncs the directory that contains a file, so that a rename in it survives a power failure.
pub fn sync_parent_directory(path: &Path) -> io::Result<()> {
    File::open(parent_directory(path))?.sync_all()
}

/// The directory of a file; `.` for a bare name.
fn parent_directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::replace_file;

    #[test]
    fn file_is_replaced_with_its_mode_and_no_temporary_file_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x");
        for (content, mode) in [("one", 0o600), ("two", 0o644)] {
            replace_file(&path, content.as_bytes(), mode).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
            let found = path.metadata().unwrap().permissions().mode();
            assert_eq!(found & 0o7777, mode);
        }
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
        assert!(replace_file(&path.join("below"), b"", 0o600).is_err());
    }
}
