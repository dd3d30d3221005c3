//! The room's behaviour through its public doors; one module per subject.

mod aggregates;
mod builtins;
mod coercion;
mod documents;
mod validation;

use muster_ddl::Ddl;
use serde_json::{Map, Value};

/// A DDL in the shape of published ones.
const PACKAGES: &str = include_str!("fixtures/packages.json");

fn packages() -> Ddl {
    Ddl::from_slice(PACKAGES.as_bytes()).unwrap()
}

/// A DDL of one action, `act`, with the given keys.
fn one_action(keys: Value) -> Result<Ddl, muster_ddl::DdlError> {
    let mut action = serde_json::json!({"action": "act", "description": "Act"});
    action.as_object_mut().unwrap().extend(object(keys));
    let document = serde_json::json!({"metadata": {"name": "one"}, "actions": [action]});
    Ddl::from_slice(document.to_string().as_bytes())
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("{other} is no object"),
    }
}

/// An error and all its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line = format!("{line}: {error}");
        cause = error.source();
    }
    line
}
