//! Processes that outlive this command: started with a log, known again by their start time, and ended for sure.
//!
//! A process number alone is never trusted: after a while it may be somebody else's.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
#[expect(
    clippy::disallowed_types,
    reason = "a demonstration is made of processes"
)]
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, interval};

use super::DemoError;
use crate::files;

/// How long the kernel may take to end a process.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// How often it is looked at meanwhile.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A process that can be recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DemoProcess {
    /// Its number.
    pub pid: u32,
    /// When it was started, in clock ticks since the machine was.
    pub start_time: u64,
}

/// Starts a program in a process group of its own, so that neither the terminal nor the shell takes it down. It reads
/// nothing, and what it says goes to the log.
#[expect(
    clippy::disallowed_types,
    reason = "a demonstration is made of processes"
)]
pub fn start_process(
    program: &Path,
    arguments: &[&OsStr],
    environment: &[(&str, &OsStr)],
    log: &Path,
) -> Result<(Child, DemoProcess), DemoError> {
    let out = File::create(log).map_err(files::file_error("write", log))?;
    let err = out.try_clone().map_err(files::file_error("write", log))?;
    let failed = |source| DemoError::Start {
        program: program.to_owned(),
        source,
    };
    let child = Command::new(program)
        .args(arguments)
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .process_group(0)
        .spawn()
        .map_err(failed)?;
    let pid = child.id();
    // A child that was not waited for keeps its entry, even if it has ended by now.
    let start_time = read_stat(pid).map_or(0, |stat| stat.start_time);
    Ok((child, DemoProcess { pid, start_time }))
}

impl DemoProcess {
    /// Whether it is still there. One that ended and waits for its parent to notice is not.
    pub fn is_alive(&self) -> bool {
        read_stat(self.pid).is_some_and(|stat| stat.start_time == self.start_time && !stat.is_dead)
    }

    /// The memory that would be free without it, in bytes: its own, and its share of what it shares.
    pub fn memory_bytes(&self) -> Option<u64> {
        let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", self.pid)).ok()?;
        proportional_set_size(&rollup)
    }

    fn raw_pid(self) -> Option<Pid> {
        i32::try_from(self.pid)
            .ok()
            .filter(|pid| *pid > 1)
            .map(Pid::from_raw)
    }
}

/// Asks processes to end, waits, and ends those that do not, with what they started.
pub async fn stop_processes(
    processes: &[DemoProcess],
    patience: Duration,
) -> Result<(), DemoError> {
    for process in processes.iter().filter(|process| process.is_alive()) {
        // One that ended in between is what was wanted.
        let _ = process.raw_pid().map(|pid| kill(pid, Signal::SIGTERM));
    }
    if await_exit(processes, patience).await.is_ok() {
        return Ok(());
    }
    for process in processes.iter().filter(|process| process.is_alive()) {
        let _ = process.raw_pid().map(|pid| killpg(pid, Signal::SIGKILL));
    }
    await_exit(processes, KILL_TIMEOUT).await
}

async fn await_exit(processes: &[DemoProcess], patience: Duration) -> Result<(), DemoError> {
    let deadline = Instant::now() + patience;
    let mut ticks = interval(POLL_INTERVAL);
    loop {
        let left = processes.iter().filter(|process| process.is_alive());
        let left: Vec<u32> = left.map(|process| process.pid).collect();
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(DemoError::Survivors(left));
        }
        ticks.tick().await;
    }
}

/// What the kernel says of a process.
#[derive(Debug, PartialEq, Eq)]
struct ProcStatFields {
    is_dead: bool,
    start_time: u64,
}

fn read_stat(pid: u32) -> Option<ProcStatFields> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Reads `/proc/PID/stat` (proc(5)). The name in brackets may hold anything, brackets too.
fn parse_stat(text: &str) -> Option<ProcStatFields> {
    let (_, fields) = text.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?;
    // The state is field 3; the start time is field 22.
    let start_time = fields.nth(18)?.parse().ok()?;
    Some(ProcStatFields {
        is_dead: matches!(state, "Z" | "X"),
        start_time,
    })
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
        DemoProcess, POLL_INTERVAL, ProcStatFields, parse_stat, proportional_set_size, read_stat,
        stop_processes,
    };

    #[test]
    fn the_kernels_line_is_read_whatever_the_process_is_called() {
        let line = "42 (a ) R 1) S 1 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 777 1 1 1";
        assert_eq!(
            parse_stat(line),
            Some(ProcStatFields {
                is_dead: false,
                start_time: 777
            })
        );
        let dead = line.replace(") S ", ") Z ");
        assert_eq!(
            parse_stat(&dead),
            Some(ProcStatFields {
                is_dead: true,
                start_time: 777
            })
        );
        assert_eq!(parse_stat("42 (a) S 1"), None);
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn memory_is_the_proportional_share() {
        assert_eq!(
            proportional_set_size("Rss:  10 kB\nPss:                2048 kB\n"),
            Some(2048 * 1024)
        );
        assert_eq!(proportional_set_size("Rss: 10 kB\n"), None);
    }

    #[test]
    fn another_process_under_the_same_number_is_not_taken_for_it() {
        let pid = std::process::id();
        let start_time = read_stat(pid).unwrap().start_time;
        assert!(DemoProcess { pid, start_time }.is_alive());
        assert!(
            !DemoProcess {
                pid,
                start_time: start_time + 1
            }
            .is_alive()
        );
    }

    #[tokio::test]
    async fn a_process_that_ignores_a_request_to_end_is_ended() {
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
        stop_processes(&[process], Duration::from_millis(50))
            .await
            .unwrap();
        assert!(!process.is_alive());
    }
}
