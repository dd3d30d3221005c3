//! Names, attributes and values of the built-in resource types, for completion. A test of the engine writes `resource_types.json` from the types.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// A resource type.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ResourceTypeNames {
    /// What it manages, in a sentence or two.
    pub description: String,
    /// Its attributes by name.
    pub attributes: BTreeMap<String, ResourceAttributeNames>,
}

/// An attribute of a resource type.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ResourceAttributeNames {
    /// Its meaning, in a sentence.
    pub description: String,
    /// The keywords that it accepts; empty if they cannot be listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// The built-in resource types by name.
pub fn builtin_resource_types() -> &'static BTreeMap<String, ResourceTypeNames> {
    static TYPES: LazyLock<BTreeMap<String, ResourceTypeNames>> = LazyLock::new(|| {
        // A test ensures that the document is valid.
        serde_json::from_str(include_str!("../resource_types.json")).unwrap_or_default()
    });
    &TYPES
}
