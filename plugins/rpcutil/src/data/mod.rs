//! One file per data source. Each answers a flat object of named values.

mod agent;
mod class;
mod collective;
mod config_item;
mod fact;
mod fstat;

pub(crate) use agent::Agent;
pub(crate) use class::Class;
pub(crate) use collective::Collective;
pub(crate) use config_item::ConfigItem;
pub(crate) use fact::Fact;
pub(crate) use fstat::Fstat;

use muster_api::ActionError;
use serde_json::{Map, Value};

/// The query, for a source that cannot do without.
fn needed<'a>(source: &str, what: &str, query: Option<&'a str>) -> Result<&'a str, ActionError> {
    let given = query.filter(|query| !query.is_empty());
    given.ok_or_else(|| ActionError::missing(format!("{source} needs {what} as its query")))
}

fn values<const N: usize>(named: [(&str, Value); N]) -> Map<String, Value> {
    named
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// A value in a flat answer: scalars as they are, tables and lists as JSON text.
fn flat(value: Value) -> Value {
    match value {
        Value::Array(_) | Value::Object(_) => Value::String(value.to_string()),
        scalar => scalar,
    }
}
