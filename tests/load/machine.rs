//! The machine and the tools of a measurement.

use std::path::Path;

use serde::Serialize;

/// Largest load average before a run whose figures are published.
const MAX_PUBLISHED_LOAD: f64 = 0.5;

/// The machine and its tools.
#[derive(Debug, Serialize)]
pub(crate) struct BenchMachine {
    /// Name of the processor.
    processor: String,
    /// Number of cores that this process may use.
    cores: usize,
    /// Memory in GiB.
    memory_gib: u64,
    /// Release of the kernel.
    kernel: String,
    /// Version of the compiler in the search path.
    rustc: String,
    /// Version of the broker.
    broker: String,
    /// Load average of the minute before the run.
    load: f64,
}

impl BenchMachine {
    /// Reads the properties of this machine.
    pub(crate) fn detect() -> Self {
        let cpuinfo = read("/proc/cpuinfo");
        let kibibytes = field(&read("/proc/meminfo"), "MemTotal")
            .split_whitespace()
            .next()
            .and_then(|number| number.parse::<u64>().ok())
            .unwrap_or_default();
        Self {
            processor: field(&cpuinfo, "model name"),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory_gib: (kibibytes + 512 * 1024) / (1024 * 1024),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            rustc: version(Path::new("rustc")),
            broker: version(&muster_tests::nats_server::find_binary()),
            load: read("/proc/loadavg")
                .split_whitespace()
                .next()
                .and_then(|number| number.parse().ok())
                .unwrap_or_default(),
        }
    }

    /// Fails if something else was running when the measurement began: such figures are not published.
    pub(crate) fn check_idle(&self) -> Result<(), String> {
        if self.load <= MAX_PUBLISHED_LOAD {
            return Ok(());
        }
        Err(format!(
            "the load average is {}: figures are appended only if it is at most {MAX_PUBLISHED_LOAD} before the run; stop other programs, wait a minute, and repeat it",
            self.load
        ))
    }

    /// A description in one line.
    pub(crate) fn line(&self) -> String {
        let Self { processor, cores, memory_gib, kernel, rustc, broker, load } = self;
        format!(
            "{processor}, {cores} cores, {memory_gib} GiB, Linux {kernel}; {broker}, {rustc}; load before: {load}"
        )
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// The value of the first line `name : value` of a text.
fn field(text: &str, name: &str) -> String {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map_or_else(|| "unknown".to_owned(), |(_, value)| value.trim().to_owned())
}

#[expect(clippy::disallowed_types, reason = "runs tools with --version")]
fn version(program: &Path) -> String {
    let output = std::process::Command::new(program).arg("--version").output();
    output.map_or_else(
        |_| format!("unknown {}", program.display()),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::BenchMachine;

    #[test]
    fn figures_of_a_busy_machine_are_not_published() {
        let machine = BenchMachine { load: 0.5, ..BenchMachine::detect() };
        assert_eq!(machine.check_idle(), Ok(()));
        let busy = BenchMachine { load: 0.51, ..machine };
        assert!(busy.check_idle().unwrap_err().contains("load average is 0.51"));
    }
}
