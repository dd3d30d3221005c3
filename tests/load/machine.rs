//! On what it was measured: figures without a machine mean nothing.

use std::path::Path;

use serde::Serialize;

/// The machine and its tools.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    /// The processor's name.
    processor: String,
    /// Cores that this process may use.
    cores: usize,
    /// Memory in GiB.
    memory_gib: u64,
    /// The kernel's release.
    kernel: String,
    /// The compiler; the one in the path.
    rustc: String,
    /// The broker's version.
    broker: String,
    /// Processes that wanted to run in the minute before: what else the machine did.
    load: f64,
}

impl Machine {
    /// This one.
    pub(crate) fn here() -> Self {
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

    /// One line for people.
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

/// The value behind the first `name :` of a file of such lines.
fn field(text: &str, name: &str) -> String {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map_or_else(|| "unknown".to_owned(), |(_, value)| value.trim().to_owned())
}

#[expect(clippy::disallowed_types, reason = "asks tools for their versions")]
fn version(program: &Path) -> String {
    let output = std::process::Command::new(program).arg("--version").output();
    output.map_or_else(
        |_| format!("unknown {}", program.display()),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}
