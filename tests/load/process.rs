//! Whole programs: how long they take, what they cost, how much memory they have. From the kernel's own counters (proc(5), getrusage(2)).

#![expect(clippy::disallowed_types, reason = "what is measured are whole programs")]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{Usage, UsageWho, getrusage};
use serde::{Deserialize, Serialize};

/// What a piece of work took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Took {
    /// By the clock on the wall.
    pub(crate) wall: Duration,
    /// Of processors, by this process.
    pub(crate) cpu: Duration,
}

/// Both clocks, running.
pub(crate) struct Stopwatch {
    wall: Instant,
    cpu: Duration,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self { cpu: own_cpu(), wall: Instant::now() }
    }

    pub(crate) fn stop(&self) -> Took {
        Took { wall: self.wall.elapsed(), cpu: own_cpu().saturating_sub(self.cpu) }
    }
}

/// Stops this thread, and with it everything that a runtime of one thread does.
#[expect(clippy::disallowed_methods, reason = "that it stops is what is wanted")]
pub(crate) fn look_away(pause: Duration) {
    std::thread::sleep(pause);
}

fn own_cpu() -> Duration {
    cpu(&getrusage(UsageWho::RUSAGE_SELF).unwrap())
}

fn cpu(usage: &Usage) -> Duration {
    let micros = |time: nix::sys::time::TimeVal| {
        let seconds = u64::try_from(time.tv_sec()).unwrap();
        seconds * 1_000_000 + u64::try_from(time.tv_usec()).unwrap()
    };
    Duration::from_micros(micros(usage.user_time()) + micros(usage.system_time()))
}

/// One of the programs that were built beside this one.
pub(crate) fn beside(name: &str) -> PathBuf {
    let program = std::env::current_exe().unwrap().with_file_name(name);
    assert!(
        program.is_file(),
        "{} is not there; build it with the same profile: cargo build --release --bin {name}",
        program.display()
    );
    program
}

/// How long a program takes from its start to its end; it must succeed, and nobody reads what it prints.
pub(crate) fn timed(command: &mut Command) -> Duration {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let begun = Instant::now();
    let output = command.output().unwrap();
    let took = begun.elapsed();
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
    took
}

/// What a program has cost, from the kernel's account of it.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Cost {
    pub(crate) took: Took,
    /// The most memory that it had at once.
    pub(crate) peak_kib: u64,
}

/// Runs a program to its end by a small process whose only child it is.
pub(crate) fn cost(command: &Command) -> Cost {
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
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}\n{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// That small process: `load child -- PROGRAM ...`.
pub(crate) fn child(program: &OsStr, arguments: &[std::ffi::OsString]) {
    let begun = Instant::now();
    let status = Command::new(program).args(arguments).stdout(Stdio::null()).status().unwrap();
    assert!(status.success(), "{} ended with {status}", program.display());
    let wall = begun.elapsed();
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    let cost = Cost {
        took: Took { wall, cpu: cpu(&usage) },
        peak_kib: u64::try_from(usage.max_rss()).unwrap(),
    };
    println!("{}", serde_json::to_string(&cost).unwrap());
}

/// A process's proportional share of memory in bytes.
pub(crate) fn proportional(pid: u32) -> u64 {
    kib(&proc(pid, "smaps_rollup"), "Pss:") * 1024
}

/// Memory that a process has to itself, in bytes.
pub(crate) fn resident(pid: u32) -> u64 {
    kib(&proc(pid, "status"), "VmRSS:") * 1024
}

/// Processor time of all its threads that are alive, to the nanosecond.
pub(crate) fn running_time(pid: u32) -> Duration {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of = |thread: std::fs::DirEntry| {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
        let first = text.split_whitespace().next().map(str::parse::<u64>);
        first.map_or(0, Result::unwrap)
    };
    Duration::from_nanos(threads.map(|thread| of(thread.unwrap())).sum())
}

fn proc(pid: u32, file: &str) -> String {
    std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join(file)).unwrap()
}

fn kib(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.unwrap().trim().trim_end_matches("kB").trim();
    number.parse().unwrap()
}

/// Bytes as MiB.
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
pub(crate) fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::{kib, proportional, resident, running_time};

    #[test]
    fn this_process_has_memory_and_has_run() {
        let own = std::process::id();
        assert!(proportional(own) > 1 << 20);
        assert!(resident(own) >= proportional(own));
        assert!(!running_time(own).is_zero());
        assert_eq!(kib("Rss: 1 kB\nPss:    2048 kB\n", "Pss:"), 2048);
    }
}
