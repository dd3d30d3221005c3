//! `release`: ends this node's permit of a pool. The run that holds it is stopped, as when the permit is lost.

use muster_api::{ActionError, AgentAction, CallContext};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::list::parse_pool_input;
use crate::client::PermitClient;

pub(crate) struct PermitReleaseAction(pub(crate) PermitClient);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct PermitReleaseInput {
    pool: String,
    run: Option<String>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct PermitReleaseOutput {
    released: usize,
}

impl AgentAction for PermitReleaseAction {
    const NAME: &'static str = "release";
    type Input = PermitReleaseInput;
    type Output = PermitReleaseOutput;

    async fn run(
        &self,
        _: &CallContext,
        input: PermitReleaseInput,
    ) -> Result<PermitReleaseOutput, ActionError> {
        let pool = parse_pool_input(&input.pool)?;
        let run = match input.run {
            Some(run) => Some(
                Uuid::parse_str(&run)
                    .map_err(|error| ActionError::invalid_input(format!("run: {error}")))?,
            ),
            None => None,
        };
        Ok(PermitReleaseOutput { released: self.0.revoke_permits(&pool, run) })
    }
}
