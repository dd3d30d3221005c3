//! Puppet's run lock: a file with a process id, valid while that process is alive and has a Puppet process name.
//!
//! Puppet removes the lock if the process is gone or its name is not one of Puppet's (`puppet`, `...puppet`, `puppet-...`,
//! or a Ruby that runs Puppet). So this process is renamed to `rpcd-puppet` while it holds the lock.
//!
//! After a power failure the process id in a lock may belong to another Puppet, or to this process. So a lock of ours has an extended attribute with
//! the boot and the start time of its process, which Puppet ignores. A lock without it is left over if its process started after it was written.

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use muster_files::read_regular_file;
use rustix::fs::{XattrFlags, fsetxattr, getxattr};

use crate::error::{SystemResult, file_error};
use crate::process::ProcessId;

/// Name of this process while it holds the lock.
const LOCK_PROCESS_NAME: &str = "rpcd-puppet";
/// Maximum size of a lock file, in bytes; a longer one is invalid.
const MAX_LOCK_FILE_BYTES: u64 = 64;

/// Extended attribute of a lock: `BOOT_ID START`, the start in clock ticks since boot.
const HOLDER_ATTRIBUTE: &str = "user.muster.holder";
/// Largest attribute, in bytes: a UUID, a space and a number.
const MAX_HOLDER_BYTES: usize = 64;
/// Clock ticks per second in `/proc`, the same on all architectures that Rust supports.
const TICKS_PER_SECOND: u64 = 100;
/// How much later than its lock a process must have started. The times have a resolution of a second.
const START_MARGIN: Duration = Duration::from_secs(2);

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

/// The process that holds the lock, by Puppet's own check; `None` if it is free, stale or left over.
pub fn lock_holder(path: &Path) -> Option<u32> {
    read_pid(path).filter(|pid| is_puppet(*pid) && !is_left_over(path, *pid))
}

/// Whether the lock was written by an earlier process than the one that has this id now. Host path. `false` if nothing shows it.
pub fn is_left_over(path: &Path, pid: u32) -> bool {
    let Some(process) = ProcessId::from_pid(pid) else { return false };
    if let Some(holder) = read_holder(path) {
        return holder != holder_text(&process);
    }
    let written = path.metadata().and_then(|metadata| metadata.modified());
    match (written, start_time(&process)) {
        (Ok(written), Some(started)) => {
            started.duration_since(written).is_ok_and(|later| later > START_MARGIN)
        }
        _ => false,
    }
}

/// Creates the lock with its attribute, both at once. Without support for extended attributes it has none.
fn create_lock_file(path: &Path) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    let mut file = tempfile::Builder::new().prefix(".rpcd-lock.").tempfile_in(directory)?;
    file.write_all(std::process::id().to_string().as_bytes())?;
    file.as_file().set_permissions(Permissions::from_mode(0o644))?;
    if let Some(process) = ProcessId::from_pid(std::process::id()) {
        let holder = holder_text(&process);
        // The file system may not support it, or not permit it.
        let _ = fsetxattr(file.as_file(), HOLDER_ATTRIBUTE, holder.as_bytes(), XattrFlags::empty());
    }
    file.persist_noclobber(path).map(drop).map_err(|error| error.error)
}

fn read_holder(path: &Path) -> Option<String> {
    let mut buffer = [0; MAX_HOLDER_BYTES];
    let length = getxattr(path, HOLDER_ATTRIBUTE, buffer.as_mut_slice()).ok()?;
    String::from_utf8(buffer.get(..length)?.to_vec()).ok()
}

fn holder_text(process: &ProcessId) -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    format!("{} {}", boot.trim(), process.started)
}

/// When the process started, by the wall clock as it is now.
fn start_time(process: &ProcessId) -> Option<SystemTime> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let boot = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
    let boot = Duration::from_secs(boot.trim().parse().ok()?);
    let since_boot = Duration::from_millis(process.started.saturating_mul(1000 / TICKS_PER_SECOND));
    UNIX_EPOCH.checked_add(boot)?.checked_add(since_boot)
}

fn read_pid(path: &Path) -> Option<u32> {
    // Puppet's user may own the directory.
    let bytes = read_regular_file(path, MAX_LOCK_FILE_BYTES).ok()?;
    std::str::from_utf8(&bytes).ok()?.trim().parse().ok()
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
    use std::fs::{self, File};
    use std::time::{Duration, SystemTime};

    use rustix::fs::{XattrFlags, fsetxattr};

    use super::{HOLDER_ATTRIBUTE, PidLock, is_left_over, lock_holder, read_holder};

    /// A power failure left the lock, and after the boot this process got the id in it.
    #[test]
    fn lock_of_an_earlier_process_with_our_own_id_is_stale() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("agent_catalog_run.lock");
        let own = std::process::id();
        let long_ago = SystemTime::now() - Duration::from_hours(1);
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("reads");
        for holder in [
            None,
            Some("0e3f9a2c-0000-4000-8000-000000000000 4711".to_owned()),
            Some(format!("{} 1", boot.trim())),
        ] {
            fs::write(&path, own.to_string()).expect("writes");
            let file = File::options().write(true).open(&path).expect("opens");
            match &holder {
                None => file.set_modified(long_ago).expect("sets the time"),
                Some(holder) => {
                    let value = holder.as_bytes();
                    fsetxattr(&file, HOLDER_ATTRIBUTE, value, XattrFlags::empty()).expect("marks");
                }
            }
            assert!(is_left_over(&path, own), "{holder:?}");
            let lock = PidLock::acquire(&path).expect("tries").expect("takes the stale lock");
            assert_eq!(lock_holder(&path), Some(own), "{holder:?}");
            assert!(read_holder(&path).expect("an attribute").starts_with(boot.trim()));
            drop(lock);
            assert!(!path.exists());
        }
        // Without evidence the lock counts, as for Puppet.
        fs::write(&path, own.to_string()).expect("writes");
        assert!(!is_left_over(&path, own));
        let left: Vec<_> = fs::read_dir(directory.path()).expect("lists").collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

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
