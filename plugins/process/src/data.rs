//! `process("nginx")`, `process("/nginx: worker/")`: how many processes there are of a name or command line.

use muster_api::wire::filter::Pattern;
use muster_api::{ActionError, Context, DataSource};
use serde::Serialize;

use crate::table;

/// Most numbers that are told.
const TOLD: usize = 1000;

pub(crate) struct ProcessData;

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    pub(crate) running: bool,
    pub(crate) count: u64,
    pub(crate) pids: Vec<u32>,
}

impl DataSource for ProcessData {
    const NAME: &'static str = "process";
    type Output = Output;

    async fn query(&self, cx: &Context, query: Option<&str>) -> Result<Output, ActionError> {
        let wanted = Pattern::parse(query.unwrap_or_default())
            .map_err(|error| ActionError::invalid(error.to_string()))?;
        let system = cx.system.clone();
        let found = cx
            .blocking(move |cancel| table::read(&*system, &cancel))
            .await?;
        let processes = found.map_err(|error| ActionError::failed(error.to_string()))?;
        let pids: Vec<u32> = processes
            .iter()
            .filter(|process| process.is(&wanted))
            .map(|process| process.pid)
            .collect();
        Ok(Output {
            running: !pids.is_empty(),
            count: pids.len().try_into().unwrap_or(u64::MAX),
            pids: pids.into_iter().take(TOLD).collect(),
        })
    }
}
