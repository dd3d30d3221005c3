//! The built-in agents as types: their actions, inputs and outputs, one module for each agent. Their DDLs are generated from these types.
//!
//! Readers accept values of other versions: unknown fields are ignored, and a field that is missing or null has its default.

#![warn(missing_docs)]

pub mod again;
pub mod catalog;
pub mod compiler;
pub mod config;
pub mod directory;
pub mod filecopy;
pub mod filemgr;
pub mod history;
pub mod ledger;
pub mod motd;
pub mod nettest;
pub mod nrpe;
pub mod package;
pub mod permit;
pub mod process;
pub mod provision;
pub mod provisioner;
pub mod puppet;
pub mod puppetca;
pub mod puppetral;
pub mod release;
pub mod restart;
pub mod rpcutil;
pub mod schedule;
pub mod service;
pub mod shell;
pub mod ssh;
pub mod tunnel;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde::de::value::MapDeserializer;
use serde_json::{Map, Value};

/// Reads the inputs or outputs of an action. Null means "not computed" for every output of a DDL, so it counts as missing.
pub fn read_values<T: DeserializeOwned>(values: &Map<String, Value>) -> serde_json::Result<T> {
    let present = values.iter().filter(|(_, value)| !value.is_null());
    T::deserialize(MapDeserializer::new(present.map(|(name, value)| (name.as_str(), value))))
}

/// Converts the inputs or outputs of an action to a JSON object; empty if they are none.
pub fn write_values(values: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(values) {
        Ok(Value::Object(object)) => object,
        _ => Map::new(),
    }
}

/// Converts the inputs of a request to a JSON object. An input without a value is not given, so that the node uses its default.
pub fn given_inputs(input: &impl Serialize) -> Map<String, Value> {
    let mut values = write_values(input);
    values.retain(|_, value| !value.is_null());
    values
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::puppet::{PuppetRunClass, PuppetRunOutcome, PuppetRunState, PuppetStatusOutput};
    use super::read_values;

    fn outcome(values: &Value) -> PuppetRunOutcome {
        read_values(values.as_object().unwrap()).unwrap()
    }

    #[test]
    fn reads_values_of_newer_and_older_nodes() {
        let newer = outcome(&json!({
            "run": "r", "state": "resting", "class": "half_done", "changed": 3, "not_known_yet": {"a": 1},
        }));
        assert_eq!(newer.state, PuppetRunState::Unknown);
        assert_eq!(newer.class, Some(PuppetRunClass::Other("half_done".to_owned())));
        assert_eq!(newer.changed, Some(3));
        let older = outcome(&json!({"run": "r", "initiated_at": null, "class": null}));
        assert_eq!((older.initiated_at, older.class), (0, None));
        let other = json!({"run": 7});
        assert!(read_values::<PuppetStatusOutput>(other.as_object().unwrap()).is_err());
    }
}
