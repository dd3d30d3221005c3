//! Data source `config_item("identity")`: one value of the daemon's configuration with secrets redacted.

use muster_api::{ActionError, CallContext, DataSource};
use serde::Serialize;
use serde_json::Value;

use super::flatten_value;
use crate::secret;

pub(crate) struct ConfigItemDataSource;

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct ConfigItemDataOutput {
    exists: bool,
    value: Value,
}

impl DataSource for ConfigItemDataSource {
    const NAME: &'static str = "config_item";
    type Output = ConfigItemDataOutput;

    async fn query(
        &self,
        cx: &CallContext,
        query: Option<&str>,
    ) -> Result<ConfigItemDataOutput, ActionError> {
        let item = query.unwrap_or_default();
        let found = cx.node.config_item(item);
        let found = found.map(|value| secret::redact_item(item, value));
        Ok(ConfigItemDataOutput {
            exists: found.is_some(),
            value: found.map(flatten_value).unwrap_or_default(),
        })
    }
}
