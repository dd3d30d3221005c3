//! `class('mysql::master')`: whether configuration management gave the node the class.

use muster_api::{Answer, Context, DataSource};
use serde_json::json;

use super::{needed, values};

pub(crate) struct Class;

impl DataSource for Class {
    fn name(&self) -> &'static str {
        "class"
    }

    fn description(&self) -> &'static str {
        "Whether configuration management gave the node a class"
    }

    fn query<'a>(&'a self, cx: &'a Context, query: Option<&'a str>) -> Answer<'a> {
        Box::pin(async move {
            // The node keeps its classes in lower case, as Puppet compares them.
            let name = needed("class", "the name of a class", query)?.to_lowercase();
            Ok(values([(
                "exists",
                json!(cx.node.classes().contains(&name)),
            )]))
        })
    }
}
