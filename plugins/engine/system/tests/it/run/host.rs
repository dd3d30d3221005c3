//! Helpers: the real root, a shell command, and waiting for the end of a process.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use muster_system::Command;
use muster_system::real::RealSystem;

pub(crate) fn host() -> RealSystem {
    RealSystem::new(PathBuf::from("/"))
}

pub(crate) fn sh(script: &str) -> Command {
    Command::new(["/bin/sh", "-c", script])
}

/// Waits at most 20 s until the process is gone or a zombie.
pub(crate) fn await_death(pid: &str) {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if state.is_empty() || state.contains(") Z ") {
            return;
        }
        assert!(Instant::now() < deadline, "{state}");
        std::thread::yield_now();
    }
}
