//! `runs`: results of the runs that were requested through this agent.

use std::sync::Arc;

use muster_api::{ActionError, BlockingContext};
use muster_contract::puppet::{PuppetRunsInput, PuppetRunsOutput};

use super::parse_run_id;
use crate::runs::PuppetRunManager;

pub(crate) fn list_runs(
    runs: &Arc<PuppetRunManager>,
    _: &BlockingContext,
    PuppetRunsInput { run, count }: PuppetRunsInput,
) -> Result<PuppetRunsOutput, ActionError> {
    let id = run.as_deref().map(parse_run_id).transpose()?;
    let runs = runs.list_outcomes(id, count);
    Ok(PuppetRunsOutput { count: runs.len(), runs })
}
