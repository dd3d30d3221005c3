//! `collective("eu")`: whether the node is a member of the collective.

use muster_api::{ActionError, Context, DataSource};
use serde::Serialize;

pub(crate) struct Collective;

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    member: bool,
}

impl DataSource for Collective {
    const NAME: &'static str = "collective";
    type Output = Output;

    async fn query(&self, cx: &Context, query: Option<&str>) -> Result<Output, ActionError> {
        let name = query.unwrap_or_default();
        let mut collectives = cx.node.collectives().iter();
        let member = collectives.any(|known| known.as_str() == name);
        Ok(Output { member })
    }
}
