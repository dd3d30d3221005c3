//! Data source `process("nginx")` or `process("/nginx: worker/")`: counts processes by name or command line.

use muster_api::filter::FilterPattern;
use muster_api::{ActionError, CallContext, DataSource};
use serde::Serialize;

use crate::table;

/// Most PIDs that are listed.
const MAX_PIDS: usize = 1000;

pub(crate) struct ProcessDataSource;

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct ProcessDataOutput {
    pub(crate) running: bool,
    pub(crate) count: u64,
    pub(crate) pids: Vec<u32>,
}

impl DataSource for ProcessDataSource {
    const NAME: &'static str = "process";
    type Output = ProcessDataOutput;

    async fn query(
        &self,
        cx: &CallContext,
        query: Option<&str>,
    ) -> Result<ProcessDataOutput, ActionError> {
        let pattern = FilterPattern::parse(query.unwrap_or_default())
            .map_err(|error| ActionError::invalid_input(error.to_string()))?;
        let system = cx.system.clone();
        let found = cx.run_blocking(move |cancel| table::read_processes(&*system, &cancel)).await?;
        let processes = found.map_err(|error| ActionError::failed(error.to_string()))?;
        let pids: Vec<u32> = processes
            .iter()
            .filter(|process| process.matches_pattern(&pattern))
            .map(|process| process.pid)
            .collect();
        Ok(ProcessDataOutput {
            running: !pids.is_empty(),
            count: pids.len().try_into().unwrap_or(u64::MAX),
            pids: pids.into_iter().take(MAX_PIDS).collect(),
        })
    }
}
