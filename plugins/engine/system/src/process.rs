//! Processes of the machine: how they are known for certain, where those that outlive us leave their output, and how what nobody
//! announces is waited for.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

pub use nix::sys::signal::Signal;

/// How long the last of what a program printed is awaited after its end, when somebody whom it left behind (a daemon) keeps its
/// streams open.
pub const OUTPUT_DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// How often is looked.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Waits on this thread until it is so, `patience` at most; whether it became so. For what the kernel does not announce: the end of a
/// process that is not our child, a file that somebody writes.
pub fn wait_until(patience: Duration, so: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    loop {
        if so() {
            return true;
        }
        let left = patience.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return false;
        }
        thread::park_timeout(left.min(POLL_INTERVAL));
    }
}

/// One process, for good: its number may be given to another one later, but not with the same start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    /// The number.
    pub pid: u32,
    /// When it was started, in clock ticks since the machine's boot: field 22 of `/proc/PID/stat`.
    pub started: u64,
}

impl ProcessId {
    /// The process that has this number now; `None` when there is none that still does something.
    pub fn from_pid(pid: u32) -> Option<Self> {
        let stat = ProcessStat::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
        stat.is_alive().then_some(Self {
            pid,
            started: stat.started,
        })
    }
}

/// How long the machine has been up: a clock that nobody sets, and that all processes share.
pub fn system_uptime() -> Duration {
    let text = fs::read_to_string("/proc/uptime").unwrap_or_default();
    let seconds = text.split_ascii_whitespace().next();
    let seconds = seconds.and_then(|word| word.parse().ok());
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .unwrap_or_default()
}

/// Where a program that outlives us leaves what it prints and how it ended: files in a directory of ours on the host, not of
/// the node, which exists and which only we may enter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessSpool {
    /// The directory.
    pub directory: PathBuf,
    /// Bytes that are kept of each stream; the rest is read and dropped.
    pub limit: u64,
}

impl ProcessSpool {
    /// What the program prints on its standard output, as it comes.
    pub const STDOUT: &str = "stdout";
    /// What it prints on its standard error.
    pub const STDERR: &str = "stderr";
    /// Its exit code as a number, 128 + signal when a signal ended it. There when it has ended, and complete then. The streams
    /// are complete when the process that was started is gone, which also waits for whom the program left behind; whoever does not
    /// wait for those waits [`OUTPUT_DRAIN_TIMEOUT`].
    pub const EXIT: &str = "exit";
}

/// What the kernel tells of a process in `/proc/PID/stat`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessStat {
    /// The program's name, cut to 15 bytes by the kernel.
    pub name: String,
    /// One letter: `R` running, `S` sleeping, `Z` ended and not yet taken notice of, and so on.
    pub state: char,
    /// The number of its parent.
    pub parent: u32,
    /// Processor time in clock ticks, in its own code and for it in the kernel.
    pub ticks: u64,
    /// When it was started, in clock ticks since boot.
    pub started: u64,
}

impl ProcessStat {
    /// Reads the text. The name stands in parentheses, and may hold parentheses and blanks itself.
    pub fn parse(text: &str) -> Option<Self> {
        let (head, rest) = text.rsplit_once(')')?;
        let (_, name) = head.split_once('(')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // The first of them is field 3 of the file.
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some(Self {
            name: name.to_owned(),
            state: fields.first()?.chars().next()?,
            parent: u32::try_from(number(4)?).ok()?,
            ticks: number(14)?.saturating_add(number(15)?),
            started: number(22)?,
        })
    }

    /// Whether it still does something: a process that ended and waits to be noticed does not.
    pub fn is_alive(&self) -> bool {
        !matches!(self.state, 'Z' | 'X' | 'x')
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::ProcessStat;

    #[test]
    fn the_kernels_line_is_understood() {
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
        fn any_text_is_read_without_harm(text in "\\PC{0,120}") {
            let _ = ProcessStat::parse(&text);
        }
    }
}
