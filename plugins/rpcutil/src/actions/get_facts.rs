//! `get_facts`: returns several facts by their dotted paths.

use muster_api::{ActionError, AgentAction, CallContext};
use muster_contract::rpcutil::RpcutilGetFactsOutput;
use serde::Deserialize;

pub(crate) struct RpcutilGetFactsAction;

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RpcutilGetFactsInput {
    /// Comma separated.
    facts: String,
}

impl AgentAction for RpcutilGetFactsAction {
    const NAME: &'static str = "get_facts";
    const ANSWERS_IMMEDIATELY: bool = true;
    type Input = RpcutilGetFactsInput;
    type Output = RpcutilGetFactsOutput;

    async fn run(
        &self,
        cx: &CallContext,
        input: RpcutilGetFactsInput,
    ) -> Result<RpcutilGetFactsOutput, ActionError> {
        let facts = cx.node.facts();
        let value = |path: &str| facts.get(path).cloned().unwrap_or_default();
        let paths = input.facts.split(',').map(str::trim);
        Ok(RpcutilGetFactsOutput {
            values: paths.map(|path| (path.to_owned(), value(path))).collect(),
        })
    }
}
