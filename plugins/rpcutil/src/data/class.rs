//! `class("mysql::master")`: whether configuration management gave the node the class.

use muster_api::{ActionError, Context, DataSource};
use serde::Serialize;

pub(crate) struct Class;

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    exists: bool,
}

impl DataSource for Class {
    const NAME: &'static str = "class";
    type Output = Output;

    async fn query(&self, cx: &Context, query: Option<&str>) -> Result<Output, ActionError> {
        // The node keeps its classes in lower case, as Puppet compares them.
        let name = query.unwrap_or_default().to_lowercase();
        let exists = cx.node.classes().contains(&name);
        Ok(Output { exists })
    }
}
