//! `list`: lists the processes of the node.

use std::sync::Arc;

use muster_api::{ActionError, AgentAction, CallContext};
use serde::{Deserialize, Serialize};

use super::{ProcessDetails, ProcessFilter};

/// Most processes in one reply, and most characters of a command line.
const MAX_LISTED: usize = 1000;
const MAX_COMMAND_CHARS: usize = 400;

pub(crate) struct ProcessListAction;

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ProcessListInput {
    pattern: Option<String>,
    user: Option<String>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct ProcessListOutput {
    count: usize,
    processes: Vec<ProcessRow>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct ProcessRow {
    pid: u32,
    parent: u32,
    user: String,
    state: String,
    memory_bytes: u64,
    cpu_seconds: f64,
    command: String,
}

impl From<&ProcessDetails> for ProcessRow {
    fn from(seen: &ProcessDetails) -> Self {
        Self {
            pid: seen.process.pid,
            parent: seen.stat.parent,
            user: seen.user.clone(),
            state: seen.stat.state.to_string(),
            memory_bytes: seen.memory,
            cpu_seconds: seen.cpu_seconds(),
            command: seen
                .command_line()
                .chars()
                .take(MAX_COMMAND_CHARS)
                .collect(),
        }
    }
}

impl AgentAction for ProcessListAction {
    const NAME: &'static str = "list";
    type Input = ProcessListInput;
    type Output = ProcessListOutput;

    async fn run(
        &self,
        cx: &CallContext,
        input: ProcessListInput,
    ) -> Result<ProcessListOutput, ActionError> {
        let wanted = ProcessFilter::parse_inputs(input.pattern.as_deref(), input.user, None)?;
        let system = Arc::clone(&cx.system);
        let found = cx
            .run_blocking(move |cancel| wanted.find_processes(&*system, &cancel))
            .await??;
        Ok(ProcessListOutput {
            count: found.len(),
            processes: found
                .iter()
                .take(MAX_LISTED)
                .map(ProcessRow::from)
                .collect(),
        })
    }
}
