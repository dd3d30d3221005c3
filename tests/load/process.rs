//! Time, cost and memory of complete programs, from the kernel's counters (proc(5), getrusage(2)).

#![expect(clippy::disallowed_types, reason = "complete programs are measured")]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{Usage, UsageWho, getrusage};
use serde::{Deserialize, Serialize};

/// The time of a piece of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TimeSpent {
    /// Wall-clock time.
    pub(crate) wall: Duration,
    /// Processor time of this process.
    pub(crate) cpu: Duration,
}

/// A running measurement of both times.
pub(crate) struct Stopwatch {
    wall: Instant,
    cpu: Duration,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self { cpu: own_cpu_time(), wall: Instant::now() }
    }

    pub(crate) fn stop(&self) -> TimeSpent {
        TimeSpent { wall: self.wall.elapsed(), cpu: own_cpu_time().saturating_sub(self.cpu) }
    }
}

/// Stops this thread, and with it everything that a single-threaded runtime does.
#[expect(clippy::disallowed_methods, reason = "the thread must stop")]
pub(crate) fn pause_thread(pause: Duration) {
    std::thread::sleep(pause);
}

fn own_cpu_time() -> Duration {
    cpu_time(&getrusage(UsageWho::RUSAGE_SELF).unwrap())
}

fn cpu_time(usage: &Usage) -> Duration {
    let micros = |time: nix::sys::time::TimeVal| {
        let seconds = u64::try_from(time.tv_sec()).unwrap();
        seconds * 1_000_000 + u64::try_from(time.tv_usec()).unwrap()
    };
    Duration::from_micros(micros(usage.user_time()) + micros(usage.system_time()))
}

/// The path of a program that was built next to this one.
pub(crate) fn find_program(name: &str) -> PathBuf {
    let program = std::env::current_exe().unwrap().with_file_name(name);
    assert!(
        program.is_file(),
        "{} does not exist; build it with the same profile: cargo build --release --bin {name}",
        program.display()
    );
    program
}

/// Runs a program and returns its wall-clock time; it must succeed, and its output is discarded.
pub(crate) fn run_timed(command: &mut Command) -> Duration {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let started = Instant::now();
    let output = command.output().unwrap();
    let took = started.elapsed();
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
    took
}

/// The cost of a program, as counted by the kernel.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct ProgramCost {
    pub(crate) took: TimeSpent,
    /// Peak resident memory.
    pub(crate) peak_kib: u64,
}

/// Runs a program through a small process that has no other child.
pub(crate) fn measure_cost(command: &Command) -> ProgramCost {
    let mut wrapper = Command::new(std::env::current_exe().unwrap());
    wrapper.arg("child").arg("--").arg(command.get_program());
    wrapper.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapper.env(name, value),
            None => wrapper.env_remove(name),
        };
    }
    let output = wrapper.stdin(Stdio::null()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}\n{stderr}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The small process: `load child -- PROGRAM ...`.
pub(crate) fn run_child(program: &OsStr, arguments: &[std::ffi::OsString]) {
    let started = Instant::now();
    let status = Command::new(program).args(arguments).stdout(Stdio::null()).status().unwrap();
    assert!(status.success(), "{} ended with {status}", program.display());
    let wall = started.elapsed();
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    let cost = ProgramCost {
        took: TimeSpent { wall, cpu: cpu_time(&usage) },
        peak_kib: u64::try_from(usage.max_rss()).unwrap(),
    };
    println!("{}", serde_json::to_string(&cost).unwrap());
}

/// A process's proportional share of memory, in bytes.
pub(crate) fn proportional_memory(pid: u32) -> u64 {
    kib(&read_proc(pid, "smaps_rollup"), "Pss:") * 1024
}

/// Resident memory of a process, in bytes.
pub(crate) fn resident_memory(pid: u32) -> u64 {
    kib(&read_proc(pid, "status"), "VmRSS:") * 1024
}

/// Processor time of all living threads of a process.
pub(crate) fn running_time(pid: u32) -> Duration {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let thread_time = |thread: std::fs::DirEntry| {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
        let first = text.split_whitespace().next().map(str::parse::<u64>);
        first.map_or(0, Result::unwrap)
    };
    Duration::from_nanos(threads.map(|thread| thread_time(thread.unwrap())).sum())
}

fn read_proc(pid: u32, file: &str) -> String {
    std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join(file)).unwrap()
}

fn kib(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.unwrap().trim().trim_end_matches("kB").trim();
    number.parse().unwrap()
}

/// Bytes in MiB.
#[expect(clippy::cast_precision_loss, reason = "a figure in a table")]
pub(crate) fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::{kib, proportional_memory, resident_memory, running_time};

    #[test]
    fn reads_memory_and_time_of_this_process() {
        let own = std::process::id();
        assert!(proportional_memory(own) > 1 << 20);
        assert!(resident_memory(own) >= proportional_memory(own));
        assert!(!running_time(own).is_zero());
        assert_eq!(kib("Rss: 1 kB\nPss:    2048 kB\n", "Pss:"), 2048);
    }
}
