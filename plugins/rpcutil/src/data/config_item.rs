//! `config_item('identity')`: one value of the daemon's configuration, secrets hidden.

use muster_api::{Answer, Context, DataSource};
use serde_json::json;

use super::{flat, needed, values};
use crate::secret;

pub(crate) struct ConfigItem;

impl DataSource for ConfigItem {
    fn name(&self) -> &'static str {
        "config_item"
    }

    fn description(&self) -> &'static str {
        "A value of the daemon's configuration; tables and lists as JSON text, secrets hidden"
    }

    fn query<'a>(&'a self, cx: &'a Context, query: Option<&'a str>) -> Answer<'a> {
        Box::pin(async move {
            let item = needed("config_item", "the name of an item", query)?;
            let found = cx
                .node
                .config_item(item)
                .map(|value| secret::shown(item, value));
            Ok(values([
                ("exists", json!(found.is_some())),
                ("value", found.map(flat).unwrap_or_default()),
            ]))
        })
    }
}
