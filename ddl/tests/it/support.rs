//! Shared helpers of the tests: sample DDLs, and short constructors of values.

use muster_ddl::AgentDdl;
use serde_json::{Map, Value};

/// A DDL in the layout of published ones.
pub(crate) const PACKAGES: &str = include_str!("fixtures/packages.json");

pub(crate) fn packages() -> AgentDdl {
    AgentDdl::from_slice(PACKAGES.as_bytes()).unwrap()
}

/// A DDL of one action, `act`, with the given keys.
pub(crate) fn one_action(keys: Value) -> Result<AgentDdl, muster_ddl::DdlError> {
    let mut action = serde_json::json!({"action": "act", "description": "Act"});
    action.as_object_mut().unwrap().extend(object(keys));
    let document = serde_json::json!({"metadata": {"name": "one"}, "actions": [action]});
    AgentDdl::from_slice(document.to_string().as_bytes())
}

pub(crate) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("{other} is not an object"),
    }
}

/// An error and all its causes in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line = format!("{line}: {error}");
        cause = error.source();
    }
    line
}
