//! One file per data source.

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

use serde_json::Value;

/// A value in a flat answer: scalars as they are, tables and lists as JSON text.
fn flat(value: Value) -> Value {
    match value {
        Value::Array(_) | Value::Object(_) => Value::String(value.to_string()),
        scalar => scalar,
    }
}
