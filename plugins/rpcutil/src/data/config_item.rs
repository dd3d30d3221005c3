//! `config_item("identity")`: one value of the daemon's configuration, secrets hidden.

use muster_api::{ActionError, Context, DataSource};
use serde::Serialize;
use serde_json::Value;

use super::flat;
use crate::secret;

pub(crate) struct ConfigItem;

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    exists: bool,
    value: Value,
}

impl DataSource for ConfigItem {
    const NAME: &'static str = "config_item";
    type Output = Output;

    async fn query(&self, cx: &Context, query: Option<&str>) -> Result<Output, ActionError> {
        let item = query.unwrap_or_default();
        let found = cx.node.config_item(item);
        let found = found.map(|value| secret::shown(item, value));
        Ok(Output {
            exists: found.is_some(),
            value: found.map(flat).unwrap_or_default(),
        })
    }
}
