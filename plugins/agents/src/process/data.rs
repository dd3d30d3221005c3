//! Data source `process("nginx")` or `process("/nginx: worker/")`: counts processes by name or command line.

use muster_api::filter::FilterPattern;
use muster_api::{ActionError, BlockingContext, NoState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::process::table;

/// Most PIDs that are listed.
const MAX_PIDS: usize = 1000;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ProcessDataOutput {
    pub(crate) running: bool,
    pub(crate) count: u64,
    pub(crate) pids: Vec<u32>,
}

pub(crate) fn count_processes(
    _: &NoState,
    cx: &BlockingContext,
    query: &str,
) -> Result<ProcessDataOutput, ActionError> {
    let pattern = FilterPattern::parse(query)
        .map_err(|error| ActionError::invalid_input(error.to_string()))?;
    let mut processes = table::read_processes(&*cx.system, &cx.cancel_flag)?;
    processes.retain(|process| process.matches_pattern(&pattern));
    Ok(ProcessDataOutput {
        running: !processes.is_empty(),
        count: processes.len().try_into().unwrap_or(u64::MAX),
        pids: processes.iter().map(|process| process.pid).take(MAX_PIDS).collect(),
    })
}
