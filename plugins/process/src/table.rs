//! The table of processes, read from `/proc`. A process that ends while it is read is left out.

use std::path::Path;

use muster_api::system::command::CancelFlag;
use muster_api::system::{System, SystemError};
use muster_api::wire::filter::FilterPattern;

/// Longest name, in bytes.
const MAX_NAME_BYTES: u64 = 4 * 1024;
/// Longest command line that is looked at, in bytes; a process with a longer one has only its name.
const MAX_COMMAND_LINE_BYTES: u64 = 256 * 1024;

/// One process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProcessEntry {
    pub(crate) pid: u32,
    /// As the kernel keeps it, cut to 15 bytes.
    pub(crate) name: String,
    /// Its words; none for a part of the kernel.
    pub(crate) arguments: Vec<String>,
}

impl ProcessEntry {
    /// Whether it is meant: by its name, or the name of its program's file; or by an expression that is found in its
    /// command line, or in its name, if it has none.
    pub(crate) fn matches_pattern(&self, wanted: &FilterPattern) -> bool {
        let program = self.arguments.first().map(Path::new);
        let file = program.and_then(Path::file_name);
        match wanted {
            FilterPattern::Regex(expression) if self.arguments.is_empty() => {
                expression.is_match(&self.name)
            }
            FilterPattern::Regex(expression) => expression.is_match(&self.arguments.join(" ")),
            exact => {
                exact.matches(&self.name)
                    || file.is_some_and(|file| exact.matches(&file.to_string_lossy()))
            }
        }
    }
}

/// All processes, by number. A machine without `/proc`, such as a scratch root, has none.
pub(crate) fn read_processes(
    system: &dyn System,
    cancel: &CancelFlag,
) -> Result<Vec<ProcessEntry>, SystemError> {
    let all = Path::new("/proc");
    if system.metadata(all)?.is_none() {
        return Ok(Vec::new());
    }
    let names = system.read_dir(all)?;
    let mut pids: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
    pids.sort_unstable();
    let running = pids.into_iter().take_while(|_| !cancel.is_cancelled());
    Ok(running
        .filter_map(|pid| read_process(system, pid))
        .collect())
}

/// One of them, if it is there.
pub(crate) fn read_process(system: &dyn System, pid: u32) -> Option<ProcessEntry> {
    let text = |file: &str, limit: u64| {
        let bytes = system
            .read_file(Path::new(&format!("/proc/{pid}/{file}")), limit)
            .ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    };
    let name = text("comm", MAX_NAME_BYTES)?.trim_end().to_owned();
    let line = text("cmdline", MAX_COMMAND_LINE_BYTES).unwrap_or_default();
    let words = line.trim_end_matches('\0');
    let arguments = if words.is_empty() {
        Vec::new()
    } else {
        words.split('\0').map(str::to_owned).collect()
    };
    Some(ProcessEntry {
        pid,
        name,
        arguments,
    })
}
