//! `collective('eu')`: whether the node is a member of the collective.

use muster_api::{Answer, Context, DataSource};
use serde_json::json;

use super::{needed, values};

pub(crate) struct Collective;

impl DataSource for Collective {
    fn name(&self) -> &'static str {
        "collective"
    }

    fn description(&self) -> &'static str {
        "Whether the node is a member of a collective"
    }

    fn query<'a>(&'a self, cx: &'a Context, query: Option<&'a str>) -> Answer<'a> {
        Box::pin(async move {
            let name = needed("collective", "the name of a collective", query)?;
            let member = cx
                .node
                .collectives()
                .iter()
                .any(|known| known.as_str() == name);
            Ok(values([("member", json!(member))]))
        })
    }
}
