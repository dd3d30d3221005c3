//! `status`: shows the state of a service's restart, or the outcome of the last one.

use std::sync::Arc;

use muster_api::base::error_chain;
use muster_api::{ActionError, AgentAction, CallContext};
use serde::{Deserialize, Serialize};

use super::parse_unit;
use crate::manager::RestartManager;

pub(crate) struct RestartStatusAction(pub(crate) Arc<RestartManager>);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RestartStatusInput {
    unit: String,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct RestartStatusOutput {
    state: String,
    text: String,
    id: Option<String>,
    requests: u32,
    requested: Option<u64>,
    ended: Option<u64>,
    pid: Option<u32>,
}

impl AgentAction for RestartStatusAction {
    const NAME: &'static str = "status";
    type Input = RestartStatusInput;
    type Output = RestartStatusOutput;

    async fn run(
        &self,
        cx: &CallContext,
        input: RestartStatusInput,
    ) -> Result<RestartStatusOutput, ActionError> {
        let target = parse_unit(&input.unit)?;
        let restarts = Arc::clone(&self.0);
        let found = cx.run_blocking(move |_| restarts.find_cycle(&target, None)).await?;
        let found = found.map_err(|error| ActionError::failed(error_chain(&error)))?;
        Ok(match found {
            None => RestartStatusOutput {
                state: "none".to_owned(),
                text: "no restart was requested".to_owned(),
                id: None,
                requests: 0,
                requested: None,
                ended: None,
                pid: None,
            },
            Some(cycle) => RestartStatusOutput {
                state: cycle.state.as_str().to_owned(),
                id: Some(cycle.id.to_string()),
                requests: cycle.requests,
                requested: Some(cycle.requested.wall),
                ended: cycle.finished_at().map(|at| at.wall),
                pid: cycle.after.map(|process| process.pid),
                text: cycle.text,
            },
        })
    }
}
