//! `ddl`: returns the DDL document of an agent of this node, so that callers need no copies.

use muster_api::{ActionError, AgentAction, CallContext};
use muster_contract::rpcutil::RpcutilDdlOutput;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

pub(crate) struct RpcutilDdlAction;

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RpcutilDdlInput {
    agent: String,
}

impl AgentAction for RpcutilDdlAction {
    const NAME: &'static str = "ddl";
    type Input = RpcutilDdlInput;
    type Output = RpcutilDdlOutput;

    async fn run(
        &self,
        cx: &CallContext,
        input: RpcutilDdlInput,
    ) -> Result<RpcutilDdlOutput, ActionError> {
        let Some(ddl) = cx.node.agent_ddl(&input.agent) else {
            let message = format!("this node has no agent {}", input.agent);
            return Err(ActionError::failed(message));
        };
        let text = serde_json::to_string(&*ddl).map_err(|error| {
            ActionError::internal_error(format!("cannot encode the DDL as JSON: {error}"))
        })?;
        let digest = Sha256::digest(text.as_bytes());
        Ok(RpcutilDdlOutput {
            version: ddl.version().to_owned(),
            sha256: format!("{digest:x}"),
            ddl: text,
        })
    }
}
