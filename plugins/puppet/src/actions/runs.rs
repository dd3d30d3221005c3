//! `runs`: results of the runs that were requested through this agent.

use std::sync::Arc;

use muster_api::{ActionError, AgentAction, CallContext};
use muster_contract::puppet::PuppetRunOutcome;
use serde::{Deserialize, Serialize};

use super::parse_run_id;
use crate::runs;

pub(crate) struct PuppetRunsAction(pub(crate) Arc<runs::PuppetRunManager>);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct PuppetRunsInput {
    run: Option<String>,
    count: usize,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct PuppetRunsOutput {
    count: usize,
    runs: Vec<PuppetRunOutcome>,
}

impl AgentAction for PuppetRunsAction {
    const NAME: &'static str = "runs";
    type Input = PuppetRunsInput;
    type Output = PuppetRunsOutput;

    async fn run(
        &self,
        cx: &CallContext,
        input: PuppetRunsInput,
    ) -> Result<PuppetRunsOutput, ActionError> {
        let id = input.run.as_deref().map(parse_run_id).transpose()?;
        let runs = Arc::clone(&self.0);
        let runs = cx.run_blocking(move |_| runs.list_outcomes(id, input.count)).await?;
        Ok(PuppetRunsOutput { count: runs.len(), runs })
    }
}
