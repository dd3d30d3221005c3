//! The private directory of one call: the files that an external program reads, and the reply that it writes.

use std::fs::{OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::sandbox::UnixAccount;

/// Maximum size of a reply file, in bytes. The limit for the reply message is lower and is applied later.
const MAX_REPLY_BYTES: u64 = 4 * 1024 * 1024;

/// The content of the files that a program reads.
pub(super) struct CallFiles {
    pub(super) request: Vec<u8>,
    pub(super) facts: Vec<u8>,
}

/// The private directory of one run. Removed on drop, on a blocking thread: a program may leave many files in it.
pub(super) struct CallDirectory(Option<TempDir>);

impl Drop for CallDirectory {
    fn drop(&mut self) {
        let Some(directory) = self.0.take() else { return };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || drop(directory))),
            Err(_) => drop(directory),
        }
    }
}

impl CallDirectory {
    /// Creates the directory with its files, owned by this user.
    pub(super) async fn create(files: CallFiles, owner: Option<UnixAccount>) -> io::Result<Self> {
        let created =
            tokio::task::spawn_blocking(move || Self::create_blocking(&files, owner.as_ref()));
        created.await.map_err(io::Error::other)?
    }

    fn create_blocking(files: &CallFiles, owner: Option<&UnixAccount>) -> io::Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("muster-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir()?;
        let contents: [(&str, &[u8]); 3] =
            [("request", &files.request), ("reply", b""), ("facts", &files.facts)];
        for (name, bytes) in contents {
            let path = directory.path().join(name);
            let mut file =
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
            file.write_all(bytes)?;
            if let Some(owner) = owner {
                chown(&path, Some(owner.uid), Some(owner.gid))?;
            }
        }
        if let Some(owner) = owner {
            chown(directory.path(), Some(owner.uid), Some(owner.gid))?;
        }
        Ok(Self(Some(directory)))
    }

    pub(super) fn path(&self) -> &Path {
        // The directory is taken only on drop.
        self.0.as_ref().map_or(Path::new("/"), TempDir::path)
    }

    /// The path of the file `request`, `reply` or `facts`.
    pub(super) fn file_path(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Returns the call directory too, so that the caller can remove it.
    pub(super) async fn read_reply(self) -> (Result<Vec<u8>, ReplyFileError>, Self) {
        let path = self.file_path("reply");
        let read = tokio::task::spawn_blocking(move || read_reply_file(&path)).await;
        (read.unwrap_or_else(|error| Err(io::Error::other(error).into())), self)
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum ReplyFileError {
    #[error("cannot read its reply: {0}")]
    Read(#[from] io::Error),
    #[error("its reply is not a regular file")]
    NoFile,
    #[error("its reply has {0} bytes; at most {MAX_REPLY_BYTES} are read")]
    Oversized(u64),
}

/// The program may have replaced the file, for example by a symlink to a secret or by a pipe that never ends.
fn read_reply_file(path: &Path) -> Result<Vec<u8>, ReplyFileError> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() => return Err(ReplyFileError::NoFile),
        Ok(found) if found.len() > MAX_REPLY_BYTES => {
            return Err(ReplyFileError::Oversized(found.len()));
        }
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    }
    let flags = nix::fcntl::OFlag::O_NOFOLLOW | nix::fcntl::OFlag::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)?;
    let bytes = muster_files::read_prefix(file, MAX_REPLY_BYTES + 1)?;
    match bytes.len() as u64 {
        size if size > MAX_REPLY_BYTES => Err(ReplyFileError::Oversized(size)),
        _ => Ok(bytes),
    }
}
