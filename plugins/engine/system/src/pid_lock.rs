//! Puppet's run lock: a file with a process id, valid while that process is alive and has a Puppet process name.
//!
//! Puppet removes the lock if the process is gone or its name is not one of Puppet's (`puppet`, `...puppet`, `puppet-...`,
//! or a Ruby that runs Puppet). So this process is renamed to `rpcd-puppet` while it holds the lock.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::error::{SystemResult, file_error};

/// Name of this process while it holds the lock.
const LOCK_PROCESS_NAME: &str = "rpcd-puppet";
/// Maximum size of a lock file, in bytes; a longer one is invalid.
const MAX_LOCK_FILE_BYTES: u64 = 64;

/// A held lock; released when dropped.
#[derive(Debug)]
pub struct PidLock {
    path: PathBuf,
    /// Previous process name.
    name: Option<String>,
}

impl PidLock {
    /// Takes the lock, or returns the process that holds it. The directory must exist; host path.
    pub fn acquire(path: &Path) -> SystemResult<Result<Self, u32>> {
        // Rename first: the lock must be valid from the moment the file exists.
        let name = rename_process(LOCK_PROCESS_NAME);
        let mut lock = Self { path: path.to_owned(), name };
        // A stale lock is removed and the attempt repeated; a concurrent process may win.
        for _ in 0..3 {
            match create_lock_file(path) {
                Ok(()) => return Ok(Ok(lock)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(source) => {
                    lock.abandon();
                    return Err(file_error("lock", path)(source));
                }
            }
            if let Some(pid) = lock_holder(path) {
                lock.abandon();
                return Ok(Err(pid));
            }
            if let Err(source) = fs::remove_file(path)
                && source.kind() != io::ErrorKind::NotFound
            {
                lock.abandon();
                return Err(file_error("remove", path)(source));
            }
        }
        lock.abandon();
        Ok(Err(lock_holder(path).unwrap_or_default()))
    }

    /// Leaves the file in place, because another process owns it.
    fn abandon(&mut self) {
        self.path = PathBuf::new();
    }
}

impl Drop for PidLock {
    fn drop(&mut self) {
        if read_pid(&self.path) == Some(std::process::id()) {
            // A failure is harmless: the process id becomes stale when this process ends.
            let _ = fs::remove_file(&self.path);
        }
        if let Some(name) = &self.name {
            rename_process(name);
        }
    }
}

/// The process that holds the lock, by Puppet's own check; `None` if it is free or stale.
pub fn lock_holder(path: &Path) -> Option<u32> {
    read_pid(path).filter(|pid| is_puppet(*pid))
}

fn create_lock_file(path: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(path)?;
    file.write_all(std::process::id().to_string().as_bytes())
}

fn read_pid(path: &Path) -> Option<u32> {
    let size = fs::metadata(path).ok()?.len();
    if size > MAX_LOCK_FILE_BYTES {
        return None;
    }
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn is_puppet(pid: u32) -> bool {
    let read_proc_file = |file: &str| {
        let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let name = read_proc_file("comm");
    let name = name.trim();
    let has_puppet_name = name.ends_with("puppet") || name.contains("puppet-");
    has_puppet_name || (name.contains("ruby") && read_proc_file("cmdline").contains("puppet"))
}

/// Renames the process (its first thread) and returns the previous name.
fn rename_process(name: &str) -> Option<String> {
    let path = format!("/proc/self/task/{}/comm", std::process::id());
    let previous_name = fs::read_to_string(&path).ok()?;
    fs::write(&path, name).ok()?;
    Some(previous_name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{PidLock, lock_holder};

    #[test]
    fn replaces_stale_locks_and_respects_live_ones() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("agent_catalog_run.lock");
        let before = fs::read_to_string(format!("/proc/self/task/{}/comm", std::process::id()));
        for stale in ["", "garbage", "999999999", "1"] {
            fs::write(&path, stale).expect("writes");
            let lock = PidLock::acquire(&path).expect("tries").expect("takes the stale lock");
            assert_eq!(fs::read_to_string(&path).expect("reads"), std::process::id().to_string());
            assert_eq!(lock_holder(&path), Some(std::process::id()), "{stale}");
            let other = PidLock::acquire(&path).expect("tries");
            assert_eq!(
                other.err(),
                Some(std::process::id()),
                "the lock is held by a live process with the name of Puppet"
            );
            drop(lock);
            assert!(!path.exists());
        }
        let after = fs::read_to_string(format!("/proc/self/task/{}/comm", std::process::id()));
        assert_eq!(before.ok(), after.ok());
    }
}
