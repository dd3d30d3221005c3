//! A directory on the host for the engine's persistent state: files replaced as a whole, and append-only files.
//!
//! Paths are host paths, not node paths: a node below a root keeps its state outside that root. The directory is
//! private (0700, files 0600), because resources may contain secrets.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_files::replace_file;
use nix::fcntl::OFlag;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::LockGuard;
use crate::error::{SystemError, SystemResult, file_error};
use crate::real::lock;

#[derive(Debug, Clone)]
pub struct StateDir {
    path: PathBuf,
}

impl StateDir {
    /// Opens the directory; creates it and its parents if needed. Refuses one that other users can change: its files say what is done later.
    pub fn open(path: &Path) -> SystemResult<Self> {
        let absolute = std::path::absolute(path).map_err(file_error("open", path))?;
        let existing = absolute.ancestors().find(|directory| directory.exists());
        // Before anything is created: a link of another user may lead elsewhere.
        muster_files::check_protected(existing.unwrap_or(Path::new("/")))?;
        let created = DirBuilder::new().recursive(true).mode(0o700).create(path);
        created.map_err(file_error("create", path))?;
        muster_files::check_protected_below(Path::new("/"), &absolute)?;
        Ok(Self { path: path.to_owned() })
    }

    /// Removes the directory's content and opens it empty.
    pub fn recreate(path: &Path) -> SystemResult<Self> {
        missing_is_none(fs::remove_dir_all(path)).map_err(file_error("empty", path))?;
        Self::open(path)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The content of a file; `None` if it does not exist. Fails if larger than `limit` bytes, or if another user can change it: the directory may have been
    /// open to others before.
    pub fn read_file(&self, name: &str, limit: u64) -> SystemResult<Option<Vec<u8>>> {
        let path = self.path.join(name);
        let read_error = file_error("read", &path);
        let mut options = OpenOptions::new();
        // Does not wait for the writer of a pipe.
        options.read(true).custom_flags(OFlag::O_NONBLOCK.bits() | OFlag::O_NOCTTY.bits());
        let Some(file) = missing_is_none(options.open(&path)).map_err(&read_error)? else {
            return Ok(None);
        };
        let metadata = file.metadata().map_err(&read_error)?;
        if !metadata.is_file() {
            return Err(read_error(io::Error::other("it is not a regular file")));
        }
        muster_files::check_protected_metadata(&path, &metadata)?;
        let size = metadata.len();
        if size > limit {
            return Err(SystemError::TooLarge { path: path.clone(), size, limit });
        }
        muster_files::read_limited(file, limit).map(Some).map_err(read_error)
    }

    /// Replaces a whole file atomically: after a crash either the old or the new content exists.
    pub fn replace_file(&self, name: &str, content: &[u8]) -> SystemResult<()> {
        let path = self.path.join(name);
        let write = || {
            let parent = path.parent().unwrap_or(&self.path);
            DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
            replace_file(&path, content, 0o600)
        };
        write().map_err(file_error("write", &path))
    }

    /// Replaces a whole file by a record as JSON.
    pub fn replace_record(&self, name: &str, record: &impl Serialize) -> SystemResult<()> {
        self.replace_file(name, &self.encode_record(name, record)?)
    }

    /// Creates a whole file with a record as JSON if it does not exist; returns whether it did.
    pub fn create_record(&self, name: &str, record: &impl Serialize) -> SystemResult<bool> {
        self.create_new(name, &self.encode_record(name, record)?)
    }

    /// The record of a file; `None` if there is none, or none that can be read.
    pub fn read_record<T: DeserializeOwned>(
        &self,
        name: &str,
        limit: u64,
    ) -> SystemResult<Option<T>> {
        let content = self.read_file(name, limit)?;
        Ok(content.and_then(|content| serde_json::from_slice(&content).ok()))
    }

    fn encode_record(&self, name: &str, record: &impl Serialize) -> SystemResult<Vec<u8>> {
        serde_json::to_vec(record)
            .map_err(io::Error::from)
            .map_err(file_error("write", &self.path.join(name)))
    }

    /// Creates a whole file if it does not exist; returns whether it did. Of concurrent callers exactly one succeeds.
    pub fn create_new(&self, name: &str, content: &[u8]) -> SystemResult<bool> {
        let path = self.path.join(name);
        let write = || {
            let mut new = tempfile::NamedTempFile::new_in(&self.path)?;
            new.write_all(content)?;
            new.as_file().sync_all()?;
            match new.persist_noclobber(&path) {
                Ok(_) => {}
                Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
                    return Ok(false);
                }
                Err(error) => return Err(error.error),
            }
            File::open(&self.path)?.sync_all()?;
            Ok(true)
        };
        write().map_err(file_error("create", &path))
    }

    /// Opens an append-only file and truncates it to the given length.
    pub fn open_appender(&self, name: &str, length: u64) -> SystemResult<FileAppender> {
        let path = self.path.join(name);
        let open = || -> io::Result<_> {
            let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&path)?;
            if file.metadata()?.len() != length {
                file.set_len(length)?;
            }
            File::open(&self.path)?.sync_all()?;
            Ok(file)
        };
        let file = open().map_err(file_error("open", &path))?;
        Ok(FileAppender { file, path })
    }

    /// Names in a subdirectory; empty if it does not exist.
    pub fn list_names(&self, name: &str) -> SystemResult<Vec<String>> {
        let path = self.path.join(name);
        let entries = missing_is_none(fs::read_dir(&path)).map_err(file_error("list", &path))?;
        let name = |entry: io::Result<fs::DirEntry>| {
            entry.map(|entry| entry.file_name().to_string_lossy().into_owned())
        };
        let names: io::Result<_> = entries.into_iter().flatten().map(name).collect();
        names.map_err(file_error("list", &path))
    }

    /// A missing file is not an error.
    pub fn remove_file(&self, name: &str) -> SystemResult<()> {
        let path = self.path.join(name);
        missing_is_none(fs::remove_file(&path)).map_err(file_error("remove", &path)).map(drop)
    }

    pub fn contains(&self, name: &str) -> bool {
        self.path.join(name).exists()
    }

    /// Holds an exclusive lock until the guard is dropped. Waits at most `timeout`.
    pub fn acquire_lock(&self, name: &str, timeout: Duration) -> SystemResult<Box<dyn LockGuard>> {
        let path = self.path.join(name);
        match lock::acquire_file_lock(&path, timeout).map_err(file_error("lock", &path))? {
            Some(lock) => Ok(Box::new(lock)),
            None => Err(SystemError::Locked { path, timeout }),
        }
    }
}

fn missing_is_none<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

#[derive(Debug)]
pub struct FileAppender {
    file: File,
    path: PathBuf,
}

impl FileAppender {
    /// Appends bytes in a single write, so that concurrent lines do not interleave.
    pub fn append(&mut self, bytes: &[u8]) -> SystemResult<()> {
        let result = self.file.write_all(bytes);
        result.map_err(file_error("append to", &self.path))
    }

    /// Blocks until all appended data is on disk.
    pub fn sync(&mut self) -> SystemResult<()> {
        let result = self.file.sync_data();
        result.map_err(file_error("sync", &self.path))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::StateDir;
    use crate::SystemError;

    #[test]
    fn directories_of_state_that_others_can_change_are_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("a/state");
        StateDir::open(&path).unwrap();
        for changed in [path.clone(), scratch.path().join("a")] {
            set_permissions(&changed, Permissions::from_mode(0o777)).unwrap();
            let error = StateDir::open(&path).unwrap_err();
            assert!(matches!(error, SystemError::Unprotected(_)), "{error}");
            let remedy = format!("run `chmod go-w {}`", changed.display());
            assert!(error.to_string().contains(&remedy), "{error}");
            set_permissions(&changed, Permissions::from_mode(0o700)).unwrap();
        }
        StateDir::open(&path).unwrap();
    }
}
