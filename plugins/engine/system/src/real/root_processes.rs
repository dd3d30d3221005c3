//! The processes of a scratch root: those whose root directory it is, as the host's `/proc` tells.
//!
//! Processes of the host, and those of other scratch roots, do not belong to the machine.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The ids of the processes below this root, or of all processes without one, ascending.
pub(super) fn list_processes(root: Option<&Path>) -> io::Result<Vec<u32>> {
    let mut pids = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let pid = entry?.file_name().to_str().and_then(|name| name.parse().ok());
        pids.extend(pid.filter(|pid| root.is_none_or(|root| has_root(*pid, root))));
    }
    pids.sort_unstable();
    Ok(pids)
}

/// Whether the root directory of the process is this one. False for a process that is gone or belongs to another user.
pub(super) fn has_root(pid: u32, root: &Path) -> bool {
    // The kernel resolves the link itself, so this compares the directories even if the process has mounts of its own.
    let Ok((theirs, ours)) = fs::metadata(format!("/proc/{pid}/root"))
        .and_then(|theirs| Ok((theirs, fs::metadata(root)?)))
    else {
        return false;
    };
    (theirs.dev(), theirs.ino()) == (ours.dev(), ours.ino())
}
