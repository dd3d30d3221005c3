//! Manages processes that outlive this command: starts them with a log, identifies them by start time, and stops them.
//!
//! A PID alone does not identify a process, because the kernel reuses it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
#[expect(clippy::disallowed_types, reason = "the demonstration runs the broker and nodes")]
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use muster_files::files;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, interval};

use crate::commands::demo::error::DemoError;

/// Timeout for the kernel to end a process after SIGKILL.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// Poll interval during that time.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Bytes read from the end of a log.
const MAX_LOG_BYTES: u64 = 1024 * 1024;
const SHOWN_LOG_LINES: usize = 15;

/// A process identified by PID and start time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DemoProcess {
    pub pid: u32,
    /// Start time in clock ticks since boot.
    pub start_time: u64,
}

/// Starts a program in its own process group, so that signals from the terminal or the shell do not reach it. Its standard input is
/// empty and its output goes to the log.
#[expect(clippy::disallowed_types, reason = "the demonstration runs the broker and nodes")]
pub fn start_process(
    program: &Path,
    arguments: &[&OsStr],
    environment: &[(&str, &OsStr)],
    log: &Path,
) -> Result<(Child, DemoProcess), DemoError> {
    let out = File::create(log).map_err(files::file_error("write", log))?;
    let err = out.try_clone().map_err(files::file_error("write", log))?;
    let child = Command::new(program)
        .args(arguments)
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .process_group(0)
        .spawn()
        .map_err(files::file_error("start", program))?;
    let pid = child.id();
    // The entry in /proc exists until the child is waited for, even if it has exited by now.
    let start_time = read_stat(pid).map_or(0, |stat| stat.start_time);
    Ok((child, DemoProcess { pid, start_time }))
}

/// The last lines of a log, indented.
pub fn log_tail(path: &Path) -> String {
    let text = files::read_text(path, MAX_LOG_BYTES).unwrap_or_else(|error| error.to_string());
    let lines: Vec<&str> = text.lines().collect();
    let tail = lines.iter().skip(lines.len().saturating_sub(SHOWN_LOG_LINES));
    tail.map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

impl DemoProcess {
    /// Zombies do not count.
    pub fn is_alive(&self) -> bool {
        read_stat(self.pid).is_some_and(|stat| stat.start_time == self.start_time && !stat.is_dead)
    }

    /// Proportional set size in bytes: private memory plus the process's share of shared memory.
    pub fn memory_bytes(&self) -> Option<u64> {
        let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", self.pid)).ok()?;
        proportional_set_size(&rollup)
    }

    fn raw_pid(self) -> Option<Pid> {
        i32::try_from(self.pid)
            .ok()
            // kill(2) interprets 0 and negative numbers as process groups; 1 is init.
            .filter(|pid| *pid > 1)
            .map(Pid::from_raw)
    }
}

/// Sends SIGTERM to the processes, waits, then sends SIGKILL to the process groups of those that are left.
pub async fn stop_processes(processes: &[DemoProcess], timeout: Duration) -> Result<(), DemoError> {
    for process in processes.iter().filter(|process| process.is_alive()) {
        // The process may have exited in between, so errors are ignored.
        let _ = process.raw_pid().map(|pid| kill(pid, Signal::SIGTERM));
    }
    if await_exit(processes, timeout).await.is_ok() {
        return Ok(());
    }
    for process in processes.iter().filter(|process| process.is_alive()) {
        let _ = process.raw_pid().map(|pid| killpg(pid, Signal::SIGKILL));
    }
    await_exit(processes, KILL_TIMEOUT).await
}

/// The processes whose root directory is one of these: services and other programs that nodes have started in their scratch roots.
pub fn find_root_processes(roots: &[PathBuf]) -> Vec<DemoProcess> {
    let identify = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    let roots: BTreeSet<(u64, u64)> = roots.iter().filter_map(|root| identify(root)).collect();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let found = pids.filter_map(|pid| {
        let start_time = read_stat(pid).filter(|stat| !stat.is_dead)?.start_time;
        let root = identify(Path::new(&format!("/proc/{pid}/root")))?;
        roots.contains(&root).then_some(DemoProcess { pid, start_time })
    });
    found.collect()
}

async fn await_exit(processes: &[DemoProcess], timeout: Duration) -> Result<(), DemoError> {
    let deadline = Instant::now() + timeout;
    let mut ticks = interval(POLL_INTERVAL);
    loop {
        let left = processes.iter().filter(|process| process.is_alive());
        let left: Vec<u32> = left.map(|process| process.pid).collect();
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(DemoError::StillRunning(left));
        }
        ticks.tick().await;
    }
}

#[derive(Debug, PartialEq, Eq)]
struct ProcStatFields {
    is_dead: bool,
    start_time: u64,
}

fn read_stat(pid: u32) -> Option<ProcStatFields> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Parses `/proc/PID/stat` (proc(5)). The name in parentheses may itself contain parentheses.
fn parse_stat(text: &str) -> Option<ProcStatFields> {
    let (_, fields) = text.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?;
    // The state is field 3; the start time is field 22.
    let start_time = fields.nth(18)?.parse().ok()?;
    Some(ProcStatFields { is_dead: matches!(state, "Z" | "X"), start_time })
}

fn proportional_set_size(rollup: &str) -> Option<u64> {
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::interval;

    use super::{
        DemoProcess, POLL_INTERVAL, ProcStatFields, find_root_processes, parse_stat,
        proportional_set_size, read_stat, stop_processes,
    };

    #[test]
    fn stat_line_is_parsed_for_any_process_name() {
        let line = "42 (a ) R 1) S 1 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 777 1 1 1";
        assert_eq!(parse_stat(line), Some(ProcStatFields { is_dead: false, start_time: 777 }));
        let dead = line.replace(") S ", ") Z ");
        assert_eq!(parse_stat(&dead), Some(ProcStatFields { is_dead: true, start_time: 777 }));
        assert_eq!(parse_stat("42 (a) S 1"), None);
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn memory_is_the_proportional_set_size() {
        assert_eq!(
            proportional_set_size("Rss:  10 kB\nPss:                2048 kB\n"),
            Some(2048 * 1024)
        );
        assert_eq!(proportional_set_size("Rss: 10 kB\n"), None);
    }

    #[test]
    fn process_with_a_reused_pid_is_distinguished() {
        let pid = std::process::id();
        let start_time = read_stat(pid).unwrap().start_time;
        assert!(DemoProcess { pid, start_time }.is_alive());
        assert!(!DemoProcess { pid, start_time: start_time + 1 }.is_alive());
    }

    #[test]
    fn processes_outside_a_scratch_root_do_not_belong_to_it() {
        let scratch = tempfile::tempdir().unwrap();
        let roots = [scratch.path().to_owned(), scratch.path().join("missing")];
        assert_eq!(find_root_processes(&roots), []);
        let own = std::process::id();
        let on_host = find_root_processes(&["/".into()]);
        assert!(on_host.iter().any(|process| process.pid == own));
    }

    #[tokio::test]
    async fn process_that_ignores_sigterm_is_killed() {
        let scratch = tempfile::tempdir().unwrap();
        let log = scratch.path().join("log");
        let script = "trap '' TERM; echo deaf; exec sleep 60".as_ref();
        let (_child, process) =
            super::start_process("/bin/sh".as_ref(), &["-c".as_ref(), script], &[], &log).unwrap();
        let mut ticks = interval(POLL_INTERVAL);
        while std::fs::read_to_string(&log).unwrap() != "deaf\n" {
            ticks.tick().await;
        }
        assert!(process.is_alive());
        stop_processes(&[process], Duration::from_millis(50)).await.unwrap();
        assert!(!process.is_alive());
    }
}
