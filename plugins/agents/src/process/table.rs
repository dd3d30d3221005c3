//! Reads the process table from `/proc`. Skips processes that exit while they are read.

use std::path::Path;

use muster_api::filter::FilterPattern;
use muster_api::system::command::CancelFlag;
use muster_api::system::{System, SystemResult};

/// Largest name file in bytes.
const MAX_NAME_BYTES: u64 = 4 * 1024;
/// Longest command line that is read, in bytes. A process with a longer one is matched by name only.
const MAX_COMMAND_LINE_BYTES: u64 = 256 * 1024;

/// One process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProcessEntry {
    pub(crate) pid: u32,
    /// Name from the kernel, truncated to 15 bytes.
    pub(crate) name: String,
    /// Command line arguments; empty for kernel threads.
    pub(crate) arguments: Vec<String>,
}

impl ProcessEntry {
    /// Whether the process matches: by its name or its program's file name, or by an expression found in its command line. An expression is
    /// matched against the name if there is no command line.
    pub(crate) fn matches_pattern(&self, pattern: &FilterPattern) -> bool {
        let program = self.arguments.first().map(Path::new);
        let file = program.and_then(Path::file_name);
        match pattern {
            FilterPattern::Regex(expression) if self.arguments.is_empty() => {
                expression.is_match(&self.name)
            }
            FilterPattern::Regex(expression) => expression.is_match(&self.arguments.join(" ")),
            exact @ FilterPattern::Exact(_) => {
                exact.matches(&self.name)
                    || file.is_some_and(|file| exact.matches(&file.to_string_lossy()))
            }
        }
    }
}

/// All processes by PID. A scratch root has only those that run inside it.
pub(crate) fn read_processes(
    system: &dyn System,
    cancel: &CancelFlag,
) -> SystemResult<Vec<ProcessEntry>> {
    let pids = system.list_processes()?;
    let running = pids.into_iter().take_while(|_| !cancel.is_cancelled());
    Ok(running.filter_map(|pid| read_process(system, pid)).collect())
}

/// The process with this PID, if it exists.
pub(crate) fn read_process(system: &dyn System, pid: u32) -> Option<ProcessEntry> {
    let text = |file: &str, limit: u64| {
        let bytes = system.read_process_file(pid, file, limit).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    };
    let name = text("comm", MAX_NAME_BYTES)?.trim_end().to_owned();
    let command_line = text("cmdline", MAX_COMMAND_LINE_BYTES).unwrap_or_default();
    let command_line = command_line.trim_end_matches('\0');
    let arguments = if command_line.is_empty() {
        Vec::new()
    } else {
        command_line.split('\0').map(str::to_owned).collect()
    };
    Some(ProcessEntry { pid, name, arguments })
}
