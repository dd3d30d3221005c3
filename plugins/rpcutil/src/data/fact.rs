//! `fact('os.family')`: whether the node has the fact, its value, and how that is written.

use muster_api::{Answer, Context, DataSource};
use serde_json::{Value, json};

use super::{flat, needed, values};

pub(crate) struct Fact;

impl DataSource for Fact {
    fn name(&self) -> &'static str {
        "fact"
    }

    fn description(&self) -> &'static str {
        "The value of a fact by its dotted path; structured ones as JSON text"
    }

    fn query<'a>(&'a self, cx: &'a Context, query: Option<&'a str>) -> Answer<'a> {
        Box::pin(async move {
            let path = needed("fact", "the path of a fact", query)?;
            let found = cx.node.facts().get(path).cloned();
            let encoding = found.as_ref().map(|value| match value {
                Value::Array(_) | Value::Object(_) => "application/json",
                _ => "text/plain",
            });
            Ok(values([
                ("exists", json!(found.is_some())),
                ("value", found.map(flat).unwrap_or_default()),
                ("value_encoding", json!(encoding)),
            ]))
        })
    }
}
