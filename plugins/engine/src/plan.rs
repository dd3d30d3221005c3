//! The plan: differences between desired and current state, as a value that can be displayed, compared and applied.

use std::fmt;

use crate::event::{ChangeEvent, ChangeEventStatus};
use crate::resource::{Resource, ResourceValue, ResourceValues, name_values};
use crate::schema::{AttributeSchema, TypeSchema};

#[derive(Clone, Default, PartialEq)]
pub struct ResourceState {
    /// Properties found. A missing resource has `ensure = absent`; a property that is not set has no entry.
    pub values: ResourceValues,
}

impl fmt::Debug for ResourceState {
    /// Prints attribute names without values, because a value may be a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("values", &self.values.keys()).finish_non_exhaustive()
    }
}

impl ResourceState {
    pub fn absent() -> Self {
        Self { values: name_values([("ensure", "absent".into())]) }
    }

    pub fn is_absent(&self) -> bool {
        self.get_text("ensure") == Some("absent")
    }

    pub fn get(&self, name: &str) -> Option<&ResourceValue> {
        self.values.get(name)
    }

    pub fn get_text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(ResourceValue::as_text)
    }
}

/// One property that is out of sync.
#[derive(Clone, PartialEq)]
pub struct PropertyChange {
    pub property: String,
    /// The value found; `None` if it is not set.
    pub from: Option<ResourceValue>,
    /// The desired value.
    pub to: ResourceValue,
    /// Neither value may be displayed.
    pub sensitive: bool,
    /// Message of the event after success, with Puppet's wording: `created`, `ip changed '10.0.0.1' to '10.0.0.2'`.
    pub message: String,
}

impl fmt::Debug for PropertyChange {
    /// Shows the message, which is safe to display; omits the values, which may be sensitive.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Change")
            .field("property", &self.property)
            .field("message", &self.message)
            .finish_non_exhaustive()
    }
}

impl PropertyChange {
    /// A change with Puppet's default message for properties.
    pub fn from_attribute(
        attribute: &AttributeSchema,
        from: Option<&ResourceValue>,
        to: &ResourceValue,
    ) -> Self {
        Self {
            property: attribute.name.to_owned(),
            from: from.cloned(),
            to: to.clone(),
            sensitive: attribute.sensitive,
            message: change_message(attribute, from, to),
        }
    }

    /// Uses Puppet's message for lists stored as one string: `groups changed a to 'a,b'`.
    pub fn join_lists(&mut self, delimiter: &str) {
        let (name, to) = (&self.property, self.to.as_list().join(delimiter));
        let from = self.from.as_ref().filter(|from| !is_absent(from));
        let from = from.map(|from| from.as_list().join(delimiter));
        self.message = match from {
            None => format!("defined '{name}' as '{to}'"),
            Some(from) if is_absent(&self.to) => format!("undefined '{name}' from {from}"),
            Some(from) => format!("{name} changed {from} to '{to}'"),
        };
    }

    pub fn to_event(&self, resource: &str, outcome: &ChangeOutcome<'_>) -> ChangeEvent {
        let display = |value| {
            if self.sensitive { REDACTED.to_owned() } else { quote_value(value) }
        };
        let (from, to) = (display(self.from.as_ref()), display(Some(&self.to)));
        let (status, message) = match outcome {
            ChangeOutcome::Made => (ChangeEventStatus::Success, self.message.clone()),
            ChangeOutcome::Planned => {
                (ChangeEventStatus::Noop, format!("current_value {from}, should be {to} (noop)"))
            }
            ChangeOutcome::Failed(reason) => {
                (ChangeEventStatus::Failure, format!("change from {from} to {to} failed: {reason}"))
            }
        };
        let redact = |value: &ResourceValue| {
            if self.sensitive { ResourceValue::from(REDACTED) } else { value.clone() }
        };
        ChangeEvent {
            resource: resource.to_owned(),
            property: self.property.clone(),
            previous_value: self.from.as_ref().map(redact),
            desired_value: redact(&self.to),
            status,
            message,
        }
    }
}

/// Outcome of a change, or that it was not attempted.
#[derive(Debug)]
pub enum ChangeOutcome<'a> {
    Made,
    /// Planned only: noop.
    Planned,
    /// Failed, with the reason.
    Failed(&'a str),
}

pub const REDACTED: &str = "[redacted]";

fn change_message(
    attribute: &AttributeSchema,
    from: Option<&ResourceValue>,
    to: &ResourceValue,
) -> String {
    let name = attribute.name;
    let was_absent = from.is_none_or(is_absent);
    if name == "ensure" && was_absent {
        "created".to_owned()
    } else if name == "ensure" && is_absent(to) {
        "removed".to_owned()
    } else if attribute.sensitive {
        format!("changed {REDACTED} to {REDACTED}")
    } else if was_absent {
        format!("defined '{name}' as {}", quote_value(Some(to)))
    } else if is_absent(to) {
        format!("undefined '{name}' from {}", quote_value(from))
    } else {
        format!("{name} changed {} to {}", quote_value(from), quote_value(Some(to)))
    }
}

/// Whether a value means "not set": the string `absent`, or an empty list.
pub fn is_absent(value: &ResourceValue) -> bool {
    match value {
        ResourceValue::Text(word) => word == "absent",
        ResourceValue::List(words) => words.is_empty() || *words == ["absent"],
        ResourceValue::Bool(_) | ResourceValue::Int(_) | ResourceValue::Data(_) => false,
    }
}

/// Formats a value as in Puppet's messages: strings quoted, lists in brackets, numbers and booleans bare.
pub fn quote_value(value: Option<&ResourceValue>) -> String {
    match value {
        None => "'absent'".to_owned(),
        Some(ResourceValue::Text(text)) => format!("'{text}'"),
        Some(ResourceValue::List(texts)) => {
            let texts: Vec<String> = texts.iter().map(|text| format!("'{text}'")).collect();
            format!("[{}]", texts.join(", "))
        }
        Some(other) => other.to_string(),
    }
}

/// The changes from the current to the desired state; empty if the resource is in sync.
#[derive(Debug, Clone, PartialEq)]
pub struct ResourcePlan {
    /// Desired state, with the schema's defaults filled in.
    pub resource: Resource,
    pub state: ResourceState,
    /// Changes in sync order. A change of `ensure` is always the only one.
    pub changes: Vec<PropertyChange>,
}

impl ResourcePlan {
    /// Whether the resource is in sync.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Compares each desired property with the current one, by equality. If `ensure` differs, it is the only change. A
    /// resource that does not exist and has no desired `ensure` is left alone.
    pub fn compare(schema: &TypeSchema, resource: &Resource, state: &ResourceState) -> Self {
        Self {
            resource: resource.clone(),
            state: state.clone(),
            changes: compare_properties(schema, resource, state),
        }
    }
}

/// Implementation of [`ResourcePlan::compare`].
pub fn compare_properties(
    schema: &TypeSchema,
    resource: &Resource,
    state: &ResourceState,
) -> Vec<PropertyChange> {
    let differs = |property: &AttributeSchema| {
        let (desired, found) = (resource.get(property.name)?, state.get(property.name));
        let same = match found {
            Some(found) if property.name == "ensure" => is_ensured(desired, found),
            Some(found) => found == desired,
            None => is_absent(desired),
        };
        (!same).then(|| PropertyChange::from_attribute(property, found, desired))
    };
    if let Some(change) = schema.find_attribute("ensure").and_then(differs) {
        return vec![change];
    }
    if state.is_absent() {
        return Vec::new();
    }
    schema.properties().filter_map(differs).collect()
}

/// `present` matches any value except `absent`.
fn is_ensured(desired: &ResourceValue, found: &ResourceValue) -> bool {
    desired == found || (desired.as_text() == Some("present") && !is_absent(found))
}
