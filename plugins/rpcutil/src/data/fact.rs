//! Data source `fact("os.family")`: whether the node has the fact, and its value.

use muster_api::{ActionError, CallContext, DataSource};
use serde::Serialize;
use serde_json::Value;

use super::flatten_value;

pub(crate) struct FactDataSource;

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct FactDataOutput {
    exists: bool,
    value: Value,
    value_encoding: Option<String>,
}

impl DataSource for FactDataSource {
    const NAME: &'static str = "fact";
    type Output = FactDataOutput;

    async fn query(
        &self,
        cx: &CallContext,
        query: Option<&str>,
    ) -> Result<FactDataOutput, ActionError> {
        let found = cx.node.facts().get(query.unwrap_or_default()).cloned();
        let encoding = found.as_ref().map(|value| match value {
            Value::Array(_) | Value::Object(_) => "application/json",
            _ => "text/plain",
        });
        Ok(FactDataOutput {
            exists: found.is_some(),
            value_encoding: encoding.map(str::to_owned),
            value: found.map(flatten_value).unwrap_or_default(),
        })
    }
}
