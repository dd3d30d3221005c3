//! Process identity, the output spool of detached programs, and polling for conditions without
//! notification.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

pub use nix::sys::signal::Signal;

/// How long to wait for remaining output after the exit of a program if a descendant (a daemon) keeps its
/// streams open.
pub const OUTPUT_DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Blocks this thread for that long. Only for threads of their own: a thread of an asynchronous runtime must not block.
#[expect(clippy::disallowed_methods, reason = "the callers' threads serve nothing else")]
pub fn pause(duration: Duration) {
    thread::sleep(duration);
}

/// Blocks this thread until the condition is true, at most `timeout`; returns whether it became true. For conditions without kernel notification:
/// the exit of a
/// process that is not our child, a file written by another process.
pub fn wait_until(timeout: Duration, condition: impl Fn() -> bool) -> bool {
    let started = Instant::now();
    loop {
        if condition() {
            return true;
        }
        let left = timeout.saturating_sub(started.elapsed());
        if left.is_zero() {
            return false;
        }
        pause(left.min(POLL_INTERVAL));
    }
}

/// Identifies one process permanently: the pid may be reused, but not with the same start time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    pub pid: u32,
    /// Start time, in clock ticks since boot: field 22 of `/proc/PID/stat`.
    pub started: u64,
}

impl ProcessId {
    /// The process that has this pid now; `None` if there is none or it is a zombie.
    pub fn from_pid(pid: u32) -> Option<Self> {
        let stat = ProcessStat::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
        stat.is_alive().then_some(Self { pid, started: stat.started })
    }
}

/// Time since boot: a monotonic clock shared by all processes.
pub fn system_uptime() -> Duration {
    let text = fs::read_to_string("/proc/uptime").unwrap_or_default();
    let seconds = text.split_ascii_whitespace().next();
    let seconds = seconds.and_then(|word| word.parse().ok());
    seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or_default()
}

/// Output and exit code of a detached program: files in an existing directory on the host (not the
/// node) that only this user may access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessSpool {
    pub directory: PathBuf,
    /// Maximum number of bytes kept per stream; further output is read and dropped.
    pub limit: u64,
}

impl ProcessSpool {
    /// Standard output, written as it arrives.
    pub const STDOUT: &str = "stdout";
    pub const STDERR: &str = "stderr";
    /// Exit code as a number, 128 + signal if ended by a signal. Exists, complete, once the program has ended. The streams
    /// are complete once the started process is gone, which also waits for descendants; callers that do not
    /// wait for descendants wait [`OUTPUT_DRAIN_TIMEOUT`].
    pub const EXIT: &str = "exit";
    /// Process id of the started process, written before the program starts.
    pub const PID: &str = "pid";

    /// The process that was started with this spool, whether it still runs or not; `None` if none was. For a starter that ended before it stored
    /// the id. A process that has ended is returned with a start time that no process has.
    pub fn find_process(directory: &Path) -> Option<ProcessId> {
        let text = fs::read_to_string(directory.join(Self::PID)).ok()?;
        let pid = text.trim().parse().ok()?;
        // The directory is one of its arguments; a process that got the same pid later has another command line.
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = command.split(|byte| *byte == 0);
        let is_ours = words.any(|word| word == directory.as_os_str().as_encoded_bytes());
        let running = ProcessId::from_pid(pid).filter(|_| is_ours);
        Some(running.unwrap_or(ProcessId { pid, started: 0 }))
    }
}

/// Contents of `/proc/PID/stat`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessStat {
    /// Program name, truncated to 15 bytes by the kernel.
    pub name: String,
    /// State: `R` running, `S` sleeping, `Z` zombie, and so on.
    pub state: char,
    /// Pid of its parent.
    pub parent: u32,
    /// CPU time in clock ticks, user and system.
    pub ticks: u64,
    /// Start time, in clock ticks since boot.
    pub started: u64,
}

impl ProcessStat {
    /// The name is in parentheses and may itself contain parentheses and blanks.
    pub fn parse(text: &str) -> Option<Self> {
        let (head, rest) = text.rsplit_once(')')?;
        let (_, name) = head.split_once('(')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // The first element is field 3 of the file.
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some(Self {
            name: name.to_owned(),
            state: fields.first()?.chars().next()?,
            parent: u32::try_from(number(4)?).ok()?,
            ticks: number(14)?.saturating_add(number(15)?),
            started: number(22)?,
        })
    }

    /// Whether it is alive; a zombie is not.
    pub fn is_alive(&self) -> bool {
        !matches!(self.state, 'Z' | 'X' | 'x')
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::ProcessStat;

    #[test]
    fn parses_a_stat_line_of_the_kernel() {
        let line =
            "4711 (a) b)) S 17 2 3 4 5 6 7 8 9 10 250 31 14 15 20 0 9 0 987654 5000 321 7 8\n";
        let expected = ProcessStat {
            name: "a) b)".to_owned(),
            state: 'S',
            parent: 17,
            ticks: 281,
            started: 987_654,
        };
        assert_eq!(ProcessStat::parse(line), Some(expected));
    }

    proptest! {
        #[test]
        fn parsing_never_panics(text in "\\PC{0,120}") {
            let _ = ProcessStat::parse(&text);
        }
    }
}
