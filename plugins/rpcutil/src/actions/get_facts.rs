//! `get_facts`: several facts by their dotted paths.

use muster_api::{Action, ActionError, Context};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub(crate) struct GetFacts;

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {
    /// Comma separated.
    facts: String,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    /// Every fact that was asked for; null for those that the node does not have.
    values: Map<String, Value>,
}

impl Action for GetFacts {
    const NAME: &'static str = "get_facts";
    const AT_ONCE: bool = true;
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &Context, input: Input) -> Result<Output, ActionError> {
        let facts = cx.node.facts();
        let value = |path: &str| facts.get(path).cloned().unwrap_or_default();
        let paths = input.facts.split(',').map(str::trim);
        Ok(Output {
            values: paths.map(|path| (path.to_owned(), value(path))).collect(),
        })
    }
}
