//! What would change: the difference between desired and found, as a value that can be shown, compared and applied.

use crate::resource::{Resource, Value, Values};

/// What a type found on the machine about one resource.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct State {
    /// Found properties. Absence is `ensure = absent`; a property that is not set has no entry.
    pub values: Values,
}

impl State {
    /// The state of a resource that is not there.
    pub fn absent() -> Self {
        Self { values: Values::from([("ensure".to_owned(), Value::Text("absent".to_owned()))]) }
    }

    /// Whether the resource is not there.
    pub fn is_absent(&self) -> bool {
        self.values.get("ensure").and_then(Value::as_text) == Some("absent")
    }

    /// One found value.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }
}

/// One property that is not as desired.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The property.
    pub property: String,
    /// What was found; `None` when it is not set.
    pub from: Option<Value>,
    /// What is desired.
    pub to: Value,
    /// Neither value may be shown.
    pub sensitive: bool,
    /// The message of the event after success, as Puppet words it: `created`, `ip changed '10.0.0.1' to '10.0.0.2'`.
    pub message: String,
}

/// The changes that lead from the found state to the desired one; empty when there is nothing to do.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// What is desired, with the schema's defaults filled in.
    pub resource: Resource,
    /// What was found.
    pub state: State,
    /// In the order in which they are synced. If `ensure` changes, it is the only one.
    pub changes: Vec<Change>,
}

impl Plan {
    /// Whether the machine is as desired.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}
