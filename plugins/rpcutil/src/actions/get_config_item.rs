//! `get_config_item`: returns one value of the daemon's configuration with secrets redacted.

use muster_api::{ActionError, AgentAction, CallContext};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::secret;

pub(crate) struct RpcutilGetConfigItemAction;

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RpcutilGetConfigItemInput {
    item: String,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct RpcutilGetConfigItemOutput {
    item: String,
    /// Null if it is not set.
    value: Value,
}

impl AgentAction for RpcutilGetConfigItemAction {
    const NAME: &'static str = "get_config_item";
    type Input = RpcutilGetConfigItemInput;
    type Output = RpcutilGetConfigItemOutput;

    async fn run(
        &self,
        cx: &CallContext,
        RpcutilGetConfigItemInput { item }: RpcutilGetConfigItemInput,
    ) -> Result<RpcutilGetConfigItemOutput, ActionError> {
        let value = cx.node.config_item(&item).map(|value| secret::redact_item(&item, value));
        Ok(RpcutilGetConfigItemOutput { item, value: value.unwrap_or_default() })
    }
}
