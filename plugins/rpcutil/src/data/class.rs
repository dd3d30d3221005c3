//! Data source `class("mysql::master")`: whether configuration management assigned the class to the node.

use muster_api::{ActionError, CallContext, DataSource};
use serde::Serialize;

pub(crate) struct ClassDataSource;

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct ClassDataOutput {
    exists: bool,
}

impl DataSource for ClassDataSource {
    const NAME: &'static str = "class";
    type Output = ClassDataOutput;

    async fn query(
        &self,
        cx: &CallContext,
        query: Option<&str>,
    ) -> Result<ClassDataOutput, ActionError> {
        // The node stores class names in lower case, because Puppet compares them case-insensitively.
        let name = query.unwrap_or_default().to_lowercase();
        let exists = cx.node.classes().contains(&name);
        Ok(ClassDataOutput { exists })
    }
}
