//! `list`: lists the processes of the node.

use muster_api::{ActionError, BlockingContext, NoState};
use muster_contract::process::{ProcessListInput, ProcessListOutput, ProcessRow};

use super::{ProcessDetails, ProcessFilter};

/// Most processes in one reply, and most characters of a command line.
const MAX_LISTED: usize = 1000;
const MAX_COMMAND_CHARS: usize = 400;

impl From<&ProcessDetails> for ProcessRow {
    fn from(details: &ProcessDetails) -> Self {
        Self {
            pid: details.process.pid,
            parent: details.stat.parent,
            user: details.user.clone(),
            state: details.stat.state.to_string(),
            memory_bytes: details.memory,
            cpu_seconds: details.cpu_seconds(),
            command: details.command_line().chars().take(MAX_COMMAND_CHARS).collect(),
        }
    }
}

pub(crate) fn list_processes(
    _: &NoState,
    cx: &BlockingContext,
    input: ProcessListInput,
) -> Result<ProcessListOutput, ActionError> {
    let filter = ProcessFilter::parse_inputs(input.pattern.as_deref(), input.user, None)?;
    let found = filter.find_processes(&*cx.system, &cx.cancel_flag)?;
    Ok(ProcessListOutput {
        count: found.len(),
        processes: found.iter().take(MAX_LISTED).map(ProcessRow::from).collect(),
    })
}
