//! A resource: type, title and desired values, validated against the type's schema.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::{EngineError, Result};
use crate::munge;
use crate::schema::{METAPARAMETERS, RELATION_METAPARAMETERS, TypeSchema};
use crate::static_files::StaticSources;

/// A value of a property or parameter, after validation and conversion by its schema.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ResourceValue {
    Bool(bool),
    Int(i64),
    /// A string; symbols such as `present` are strings too.
    Text(String),
    List(Vec<String>),
    /// Any other value; only for types that are not built in.
    Data(StructuredValue),
}

const NULL_VALUE: ResourceValue = ResourceValue::Data(StructuredValue(serde_json::Value::Null));

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
            Self::Text(value) => f.write_str(value),
            Self::List(values) => write!(f, "[{}]", values.join(", ")),
            other => write!(f, "{}", serde_json::Value::from(other)),
        }
    }
}

impl ResourceValue {
    /// Converts any value to the simplest matching kind, which is the first that serde accepts; `None` for null.
    pub(crate) fn from_json(json: serde_json::Value) -> Option<Self> {
        // Every value but null matches a kind.
        serde_json::from_value(json).ok().filter(|value| *value != NULL_VALUE)
    }

    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            _ => None,
        }
    }

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

pub fn name_values<const N: usize>(values: [(&str, ResourceValue); N]) -> ResourceValues {
    values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A validated resource: no unknown names, every value of its declared kind.
#[derive(Clone, PartialEq)]
pub struct Resource {
    /// Lower-case name of the type, such as `user` or `ssh_authorized_key`.
    pub type_name: String,
    pub title: String,
    /// The name on the machine: the value of the type's namevar, which defaults to the title.
    pub name: String,
    /// Desired properties and parameters.
    pub values: ResourceValues,
    /// What a static catalog says of the sources of a `file`.
    pub static_sources: Option<Arc<StaticSources>>,
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

    pub fn get(&self, name: &str) -> Option<&ResourceValue> {
        self.values.get(name)
    }

    pub fn get_text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(ResourceValue::as_text)
    }

    pub fn get_int(&self, name: &str) -> Option<i64> {
        self.get(name).and_then(ResourceValue::as_int)
    }

    /// One desired list, or a string as a list; empty if absent.
    pub fn get_list(&self, name: &str) -> Vec<&str> {
        self.get(name).map_or_else(Vec::new, ResourceValue::as_list)
    }

    /// One desired boolean; false if absent.
    pub fn get_flag(&self, name: &str) -> bool {
        self.get(name).and_then(ResourceValue::as_bool).unwrap_or(false)
    }

    pub(crate) fn without_value(&self, name: &str) -> Self {
        let mut rest = self.clone();
        rest.values.remove(name);
        rest
    }

    pub fn set_value(&mut self, name: &str, value: impl Into<ResourceValue>) {
        self.values.insert(name.to_owned(), value.into());
    }

    /// Takes over the metaparameters of the resource that generated this one, except relationships and names.
    pub(crate) fn inherit_metaparameters(&mut self, generator: &Self) {
        let is_inherited =
            |name: &&str| *name != "alias" && !RELATION_METAPARAMETERS.contains(name);
        for name in METAPARAMETERS.iter().map(|attribute| attribute.name).filter(is_inherited) {
            if let Some(value) = generator.get(name) {
                self.set_value(name, value.clone());
            }
        }
    }

    /// Fails if a string is given and not valid: ``is `TEXT`, must be EXPECTED``.
    pub(crate) fn check_text(
        &self,
        name: &str,
        expected: &str,
        is_valid: impl Fn(&str) -> bool,
    ) -> Result<()> {
        match self.get_text(name).filter(|text| !is_valid(text)) {
            Some(text) => Err(self.mismatch(name, "is", text, expected)),
            None => Ok(()),
        }
    }

    /// Fails if an item of a list is not valid: ``contains `ITEM`, must be EXPECTED``.
    pub(crate) fn check_items(
        &self,
        name: &str,
        expected: &str,
        is_valid: impl Fn(&str) -> bool,
    ) -> Result<()> {
        match self.get_list(name).into_iter().find(|item| !is_valid(item)) {
            Some(item) => Err(self.mismatch(name, "contains", item, expected)),
            None => Ok(()),
        }
    }

    /// Fails if the name on the machine is not valid: ``is `NAME`, must be EXPECTED``.
    pub(crate) fn check_name(
        &self,
        expected: &str,
        is_valid: impl FnOnce(&str) -> bool,
    ) -> Result<()> {
        if is_valid(&self.name) {
            return Ok(());
        }
        Err(self.mismatch("name", "is", &self.name, expected))
    }

    fn mismatch(&self, name: &str, verb: &str, text: &str, expected: &str) -> EngineError {
        // An error is one line.
        let escaped = text.escape_debug().to_string();
        let text = if text.contains(char::is_control) { &escaped } else { text };
        EngineError::invalid_value(self, name, format!("{verb} `{text}`, must be {expected}"))
    }
}

/// `ssh_authorized_key` and `rip` make `Ssh_authorized_key[rip]`.
pub fn format_reference(type_name: &str, title: &str) -> String {
    format!("{}[{title}]", capitalise_name(type_name))
}

/// Each segment of `a::b` is capitalised.
pub fn capitalise_name(name: &str) -> String {
    name.split("::").map(capitalise_word).collect::<Vec<_>>().join("::")
}

/// The first letter becomes a capital one.
pub(crate) fn capitalise_word(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(letters).collect()
}
