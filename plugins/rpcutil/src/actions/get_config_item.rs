//! `get_config_item`: one value of the daemon's configuration, secrets hidden.

use muster_api::{Action, ActionError, Context};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::secret;

pub(crate) struct GetConfigItem;

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {
    item: String,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    item: String,
    /// Null if it is not set.
    value: Value,
}

impl Action for GetConfigItem {
    const NAME: &'static str = "get_config_item";
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &Context, Input { item }: Input) -> Result<Output, ActionError> {
        let value = cx
            .node
            .config_item(&item)
            .map(|value| secret::shown(&item, value));
        Ok(Output {
            item,
            value: value.unwrap_or_default(),
        })
    }
}
