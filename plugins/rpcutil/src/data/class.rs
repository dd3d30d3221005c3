//! `class("mysql::master")`: whether configuration management gave the node the class.

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
        // The node keeps its classes in lower case, as Puppet compares them.
        let name = query.unwrap_or_default().to_lowercase();
        let exists = cx.node.classes().contains(&name);
        Ok(ClassDataOutput { exists })
    }
}
