//! The data sources of `rpcutil`, one module each.

mod agent;
mod class;
mod collective;
mod config_item;
mod fact;
mod fstat;

pub(crate) use agent::AgentDataSource;
pub(crate) use class::ClassDataSource;
pub(crate) use collective::CollectiveDataSource;
pub(crate) use config_item::ConfigItemDataSource;
pub(crate) use fact::FactDataSource;
pub(crate) use fstat::FstatDataSource;

use serde_json::Value;

/// Flattens a value for a reply: scalars stay, tables and lists become JSON text.
fn flatten_value(value: Value) -> Value {
    match value {
        Value::Array(_) | Value::Object(_) => Value::String(value.to_string()),
        scalar => scalar,
    }
}
