//! `get_fact`: one fact by its dotted path.

use muster_api::{Action, ActionError, Context};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) struct GetFact;

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {
    fact: String,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    fact: String,
    /// Null if the node has no such fact.
    value: Value,
}

impl Action for GetFact {
    const NAME: &'static str = "get_fact";
    const AT_ONCE: bool = true;
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &Context, Input { fact }: Input) -> Result<Output, ActionError> {
        let value = cx.node.facts().get(&fact).cloned().unwrap_or_default();
        Ok(Output { fact, value })
    }
}
