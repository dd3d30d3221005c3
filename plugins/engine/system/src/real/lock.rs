//! Exclusive file locks that also exclude classic `fcntl` locks of other programs.
//!
//! Open-file-description locks: unlike classic ones they work between threads of one process, and they conflict
//! with the classic lock that `lckpwdf(3)` takes on `/etc/.pwd.lock`.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;

use crate::LockGuard;

/// Interval between attempts; the kernel has no lock call with a timeout.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(crate) struct FileLock {
    file: File,
}

impl LockGuard for FileLock {}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Unlock explicitly, because a child between fork and exec still holds the descriptor. A failure is ignored.
        let _ = fcntl(&self.file, FcntlArg::F_OFD_SETLK(&whole_file(libc::F_UNLCK)));
    }
}

/// Takes the lock; `None` if it was held by another owner for all of `timeout`.
pub(crate) fn acquire_file_lock(host: &Path, timeout: Duration) -> io::Result<Option<FileLock>> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(OFlag::O_NOFOLLOW.bits())
        .open(host)?;
    let deadline = Instant::now() + timeout;
    let (_sender, receiver) = mpsc::channel::<()>();
    loop {
        match fcntl(&file, FcntlArg::F_OFD_SETLK(&whole_file(libc::F_WRLCK))) {
            Ok(_) => return Ok(Some(FileLock { file })),
            Err(Errno::EAGAIN | Errno::EACCES | Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        if receiver.recv_timeout(left.min(LOCK_POLL_INTERVAL))
            == Err(RecvTimeoutError::Disconnected)
        {
            return Ok(None);
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the constants of struct flock are ints in libc and shorts in the struct"
)]
fn whole_file(kind: libc::c_int) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}
