//! `fact("os.family")`: whether the node has the fact, its value, and how that is written.

use muster_api::{ActionError, Context, DataSource};
use serde::Serialize;
use serde_json::Value;

use super::flat;

pub(crate) struct Fact;

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    exists: bool,
    value: Value,
    value_encoding: Option<String>,
}

impl DataSource for Fact {
    const NAME: &'static str = "fact";
    type Output = Output;

    async fn query(&self, cx: &Context, query: Option<&str>) -> Result<Output, ActionError> {
        let found = cx.node.facts().get(query.unwrap_or_default()).cloned();
        let encoding = found.as_ref().map(|value| match value {
            Value::Array(_) | Value::Object(_) => "application/json",
            _ => "text/plain",
        });
        Ok(Output {
            exists: found.is_some(),
            value_encoding: encoding.map(str::to_owned),
            value: found.map(flat).unwrap_or_default(),
        })
    }
}
