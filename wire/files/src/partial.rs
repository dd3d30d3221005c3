//! Files that are written in parts, in any order, until they are complete. An interrupted writer leaves a part, which the next one continues.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

use crate::replace::sync_parent_directory;

/// Added to the name of a file until it is complete.
const PARTIAL_SUFFIX: &str = ".part";
/// Only the owner reads and writes it; who needs more changes the complete file.
const PARTIAL_MODE: u32 = 0o600;

/// A file under its temporary name, beside the complete one. Nothing removes it but [`Self::commit`] and [`Self::discard`]. Its content is
/// untrusted: the reader must check each part. The directory must belong to the caller.
#[derive(Debug)]
pub struct PartialFile {
    file: File,
    path: PathBuf,
    complete_path: PathBuf,
}

impl PartialFile {
    /// Opens what an earlier writer has left, or creates an empty file. Links are not followed.
    pub fn open(complete_path: &Path) -> io::Result<Self> {
        let path = Self::path_of(complete_path);
        let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(PARTIAL_MODE)
            .custom_flags(flags.bits())
            .open(&path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        Ok(Self { file, path, complete_path: complete_path.to_owned() })
    }

    /// The temporary name of this file.
    pub fn path_of(complete_path: &Path) -> PathBuf {
        let mut path = OsString::from(complete_path);
        path.push(PARTIAL_SUFFIX);
        path.into()
    }

    /// The part of this size; `None` if the file ends before it does.
    pub fn read_part(&self, offset: u64, bytes: usize) -> io::Result<Option<Vec<u8>>> {
        let mut part = vec![0; bytes];
        match self.file.read_exact_at(&mut part, offset) {
            Ok(()) => Ok(Some(part)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes a part. It may be lost in a power failure until the file is complete.
    pub fn write_part(&self, offset: u64, part: &[u8]) -> io::Result<()> {
        self.file.write_all_at(part, offset)
    }

    /// Gives the file this size and its name. Both survive a power failure.
    pub fn commit(&self, size: u64) -> io::Result<()> {
        self.file.set_len(size)?;
        self.file.sync_all()?;
        fs::rename(&self.path, &self.complete_path)?;
        sync_parent_directory(&self.complete_path)
    }

    /// Removes the file.
    pub fn discard(&self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}
