//! A resource: type, title and desired values, validated against the type's schema.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::munge;
use crate::schema::TypeSchema;

/// A value of a property or parameter, after validation and conversion by its schema.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ResourceValue {
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A string; symbols such as `present` are strings too.
    Text(String),
    /// A list of strings.
    List(Vec<String>),
    /// Any other value; only for types that are not built in.
    Data(StructuredValue),
}

/// A structured value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StructuredValue(pub serde_json::Value);

impl Ord for StructuredValue {
    /// Compares the serialized texts: a total order without further meaning.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.to_string().cmp(&other.0.to_string())
    }
}

impl PartialOrd for StructuredValue {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl From<&str> for ResourceValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for ResourceValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&ResourceValue> for serde_json::Value {
    fn from(value: &ResourceValue) -> Self {
        match value {
            ResourceValue::Bool(flag) => Self::from(*flag),
            ResourceValue::Int(number) => Self::from(*number),
            ResourceValue::Text(text) => Self::from(text.as_str()),
            ResourceValue::List(values) => Self::from(values.as_slice()),
            ResourceValue::Data(StructuredValue(value)) => value.clone(),
        }
    }
}

impl fmt::Display for ResourceValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Text(value) => f.write_str(value),
            Self::List(values) => write!(f, "[{}]", values.join(", ")),
            Self::Data(StructuredValue(value)) => write!(f, "{value}"),
        }
    }
}

impl ResourceValue {
    /// Converts any value to the simplest matching kind; `None` for null.
    pub(crate) fn from_json(json: serde_json::Value) -> Option<Self> {
        use serde_json::Value as Json;
        Some(match json {
            Json::Null => return None,
            Json::Bool(flag) => Self::Bool(flag),
            Json::String(text) => Self::Text(text),
            Json::Number(ref number) => {
                number.as_i64().map_or_else(|| Self::Data(StructuredValue(json.clone())), Self::Int)
            }
            Json::Array(ref items) => {
                let text = |item: &Json| item.as_str().map(str::to_owned);
                let texts: Option<Vec<String>> = items.iter().map(text).collect();
                texts.map_or_else(|| Self::Data(StructuredValue(json.clone())), Self::List)
            }
            Json::Object(_) => Self::Data(StructuredValue(json)),
        })
    }

    /// The string, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The integer, if it is one.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            _ => None,
        }
    }

    /// The boolean, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(flag) => Some(*flag),
            _ => None,
        }
    }

    /// The strings of a list, or a single string as a list.
    pub fn as_list(&self) -> Vec<&str> {
        match self {
            Self::List(values) => values.iter().map(String::as_str).collect(),
            Self::Text(value) => vec![value],
            Self::Bool(_) | Self::Int(_) | Self::Data(_) => Vec::new(),
        }
    }
}

/// Names and values; used for both desired and current state.
pub type ResourceValues = BTreeMap<String, ResourceValue>;

/// A validated resource: no unknown names, every value of its declared kind.
#[derive(Clone, PartialEq)]
pub struct Resource {
    /// Lower-case name of the type, such as `user` or `ssh_authorized_key`.
    pub type_name: String,
    /// The title.
    pub title: String,
    /// The name on the machine: the value of the type's namevar, which defaults to the title.
    pub name: String,
    /// Desired properties and parameters.
    pub values: ResourceValues,
}

impl fmt::Debug for Resource {
    /// Prints attribute names without values, because a value may be a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resource")
            .field("reference", &self.reference())
            .field("values", &self.values.keys())
            .finish_non_exhaustive()
    }
}

impl Resource {
    /// A resource without desired values or defaults; used to query the current state.
    pub fn without_values(schema: &TypeSchema, title: &str) -> Result<Self> {
        munge::empty_resource(schema, title)
    }

    /// The reference in Puppet's syntax: `User[rip]`.
    pub fn reference(&self) -> String {
        format_reference(&self.type_name, &self.title)
    }

    /// Whether any property is desired; otherwise the resource is only queried.
    pub fn is_managed(&self, schema: &TypeSchema) -> bool {
        schema.properties().any(|property| self.values.contains_key(property.name))
    }

    /// One desired value.
    pub fn get(&self, name: &str) -> Option<&ResourceValue> {
        self.values.get(name)
    }

    /// One desired string.
    pub fn get_text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(ResourceValue::as_text)
    }

    /// One desired list, or a string as a list; empty if absent.
    pub fn get_list(&self, name: &str) -> Vec<&str> {
        self.get(name).map_or_else(Vec::new, ResourceValue::as_list)
    }

    /// One desired boolean; false if absent.
    pub fn get_flag(&self, name: &str) -> bool {
        self.get(name).and_then(ResourceValue::as_bool).unwrap_or(false)
    }
}

/// `ssh_authorized_key` and `rip` make `Ssh_authorized_key[rip]`; each segment of `a::b` is capitalised.
pub fn format_reference(type_name: &str, title: &str) -> String {
    let capitalised: Vec<String> = type_name
        .split("::")
        .map(|segment| {
            let mut letters = segment.chars();
            letters
                .next()
                .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
        })
        .collect();
    format!("{}[{title}]", capitalised.join("::"))
}
