//! Data source `collective("eu")`: whether the node is a member of the collective.

use muster_api::{ActionError, CallContext, DataSource};
use serde::Serialize;

pub(crate) struct CollectiveDataSource;

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct CollectiveDataOutput {
    member: bool,
}

impl DataSource for CollectiveDataSource {
    const NAME: &'static str = "collective";
    type Output = CollectiveDataOutput;

    async fn query(
        &self,
        cx: &CallContext,
        query: Option<&str>,
    ) -> Result<CollectiveDataOutput, ActionError> {
        let name = query.unwrap_or_default();
        let mut collectives = cx.node.collectives().iter();
        let member = collectives.any(|collective| collective.as_str() == name);
        Ok(CollectiveDataOutput { member })
    }
}
