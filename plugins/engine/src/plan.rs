//! What would change: the difference between desired and found, as a value that can be shown, compared and applied.

use std::fmt;

use crate::event::{Event, EventStatus};
use crate::resource::{Resource, Value, Values};
use crate::schema::{Attribute, Schema};

/// What a type found on the machine about one resource.
#[derive(Clone, Default, PartialEq)]
pub struct State {
    /// Found properties. Absence is `ensure = absent`; a property that is not set has no entry.
    pub values: Values,
}

impl fmt::Debug for State {
    /// Names the values without showing them: a password may be among them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("values", &self.values.keys())
            .finish_non_exhaustive()
    }
}

impl State {
    /// The state of a resource that is not there.
    pub fn absent() -> Self {
        Self {
            values: Values::from([("ensure".to_owned(), Value::Text("absent".to_owned()))]),
        }
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
#[derive(Clone, PartialEq)]
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

impl fmt::Debug for Change {
    /// The message is fit to be shown; the values may not be.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Change")
            .field("property", &self.property)
            .field("message", &self.message)
            .finish_non_exhaustive()
    }
}

impl Change {
    /// A change with the message that Puppet gives to any property.
    pub fn of(attribute: &Attribute, from: Option<&Value>, to: &Value) -> Self {
        let message = message(attribute, from, to);
        Self {
            property: attribute.name.to_owned(),
            from: from.cloned(),
            to: to.clone(),
            sensitive: attribute.sensitive,
            message,
        }
    }

    /// The same change with the type's own words for it.
    #[must_use]
    pub fn saying(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// The same in Puppet's words for lists that it keeps as one text: `groups changed a to 'a,b'`.
    #[must_use]
    pub fn joined(mut self, delimiter: &str) -> Self {
        let (name, to) = (&self.property, self.to.as_list().join(delimiter));
        let from = self.from.as_ref().filter(|from| !is_absent(from));
        let from = from.map(|from| from.as_list().join(delimiter));
        self.message = match from {
            None => format!("defined '{name}' as '{to}'"),
            Some(from) if is_absent(&self.to) => format!("undefined '{name}' from {from}"),
            Some(from) => format!("{name} changed {from} to '{to}'"),
        };
        self
    }

    /// The event of this change.
    pub fn event(&self, resource: &str, outcome: &ChangeOutcome<'_>) -> Event {
        let (from, to) = self.shown();
        let (status, message) = match outcome {
            ChangeOutcome::Made => (EventStatus::Success, self.message.clone()),
            ChangeOutcome::Planned => (
                EventStatus::Noop,
                format!("current_value {from}, should be {to} (noop)"),
            ),
            ChangeOutcome::Failed(reason) => (
                EventStatus::Failure,
                format!("change from {from} to {to} failed: {reason}"),
            ),
        };
        let hide = |value: &Value| {
            if self.sensitive {
                Value::from(REDACTED)
            } else {
                value.clone()
            }
        };
        Event {
            resource: resource.to_owned(),
            property: self.property.clone(),
            previous_value: self.from.as_ref().map(hide),
            desired_value: hide(&self.to),
            status,
            message,
        }
    }

    fn shown(&self) -> (String, String) {
        if self.sensitive {
            return (REDACTED.to_owned(), REDACTED.to_owned());
        }
        (quoted(self.from.as_ref()), quoted(Some(&self.to)))
    }
}

/// How a change went, or that it was not tried.
#[derive(Debug)]
pub enum ChangeOutcome<'a> {
    /// Made.
    Made,
    /// Only planned: noop.
    Planned,
    /// Tried and failed, with the reason.
    Failed(&'a str),
}

/// What stands in the place of a sensitive value.
pub const REDACTED: &str = "[redacted]";

fn message(attribute: &Attribute, from: Option<&Value>, to: &Value) -> String {
    let name = attribute.name;
    let was_absent = from.is_none_or(is_absent);
    if name == "ensure" && was_absent {
        "created".to_owned()
    } else if name == "ensure" && is_absent(to) {
        "removed".to_owned()
    } else if attribute.sensitive {
        format!("changed {REDACTED} to {REDACTED}")
    } else if was_absent {
        format!("defined '{name}' as {}", quoted(Some(to)))
    } else if is_absent(to) {
        format!("undefined '{name}' from {}", quoted(from))
    } else {
        format!("{name} changed {} to {}", quoted(from), quoted(Some(to)))
    }
}

/// Whether a value stands for "not set": the word `absent`, or an empty list.
pub fn is_absent(value: &Value) -> bool {
    match value {
        Value::Text(word) => word == "absent",
        Value::List(words) => {
            words.is_empty() || (words.len() == 1 && words.iter().all(|word| word == "absent"))
        }
        Value::Bool(_) | Value::Int(_) | Value::Data(_) => false,
    }
}

/// A value as Puppet shows it in a message: texts quoted, lists in brackets, numbers and truths bare.
pub fn quoted(value: Option<&Value>) -> String {
    match value {
        None => "'absent'".to_owned(),
        Some(Value::Text(text)) => format!("'{text}'"),
        Some(Value::List(texts)) => {
            let texts: Vec<String> = texts.iter().map(|text| format!("'{text}'")).collect();
            format!("[{}]", texts.join(", "))
        }
        Some(other) => other.to_string(),
    }
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
    /// Compares each desired property with the found one, by equality. If `ensure` differs, it is the only change; a
    /// resource that is not there, and of which `ensure` is not desired, is left alone.
    pub fn compare(schema: &Schema, resource: &Resource, state: &State) -> Self {
        Self {
            resource: resource.clone(),
            state: state.clone(),
            changes: compare(schema, resource, state),
        }
    }
}

/// The changes of [`Plan::compare`].
pub fn compare(schema: &Schema, resource: &Resource, state: &State) -> Vec<Change> {
    let differs = |property: &Attribute| {
        let (desired, found) = (resource.get(property.name)?, state.get(property.name));
        let same = match found {
            Some(found) if property.name == "ensure" => ensured(desired, found),
            Some(found) => found == desired,
            None => is_absent(desired),
        };
        (!same).then(|| Change::of(property, found, desired))
    };
    if let Some(change) = schema.attribute("ensure").and_then(differs) {
        return vec![change];
    }
    if state.is_absent() {
        return Vec::new();
    }
    schema.properties().filter_map(differs).collect()
}

/// `present` is whatever is not absent.
fn ensured(desired: &Value, found: &Value) -> bool {
    desired == found || (desired.as_text() == Some("present") && !is_absent(found))
}
