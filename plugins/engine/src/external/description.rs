//! The description document of an external type, and its conversion to a schema. Pure.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::schema::{
    AttributeKind, AttributeRole, AttributeSchema, TypeSchema, leak_text, parameter,
};

/// `NAME.json`. Unknown keys are rejected, because a misspelled `sensitive` would expose a secret.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExternalTypeDescription {
    /// Documentation: one or two sentences.
    #[serde(rename = "description")]
    pub(super) doc: String,
    /// The program; a relative path is resolved against the directory of the description.
    pub(super) program: String,
    /// Timeout of one call, in seconds.
    #[serde(default = "default_timeout_secs")]
    pub(super) timeout: u64,
    /// The attribute that defaults to the title.
    #[serde(default = "default_namevar")]
    pub(super) namevar: String,
    /// Whether the program supports refreshes.
    #[serde(default)]
    pub(super) refreshes: bool,
    /// Attributes, `ensure` first, then sorted by name.
    pub(super) attributes: BTreeMap<String, ExternalAttribute>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExternalAttribute {
    description: String,
    /// Property (compared and changed) rather than parameter.
    #[serde(default)]
    property: bool,
    #[serde(rename = "type", default)]
    kind: ExternalAttributeKind,
    /// The accepted values; any if empty.
    #[serde(default)]
    values: Vec<String>,
    default: Option<String>,
    /// The value is never displayed.
    #[serde(default)]
    sensitive: bool,
    /// The value names a resource of this type, which comes first.
    pub(super) requires: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ExternalAttributeKind {
    #[default]
    String,
    Integer,
    Boolean,
    List,
    Path,
    Any,
}

fn default_timeout_secs() -> u64 {
    60
}

fn default_namevar() -> String {
    "name".to_owned()
}

/// A description without a property: there is nothing to compare.
#[derive(Debug, thiserror::Error)]
#[error("a type needs at least one attribute with `property`: true")]
pub(super) struct MissingPropertyError;

/// Leaks the schema, because schemas are `'static`. One allocation per version of a description.
pub(super) fn leak_schema(
    name: &str,
    description: &ExternalTypeDescription,
) -> Result<&'static TypeSchema, MissingPropertyError> {
    let mut attributes: Vec<AttributeSchema> = description
        .attributes
        .iter()
        .map(|(name, attribute)| build_attribute(name, attribute))
        .collect();
    attributes.sort_by_key(|attribute| attribute.name != "ensure");
    if !attributes.iter().any(|attribute| attribute.name == description.namevar) {
        let namevar = leak_text(&description.namevar);
        attributes.push(parameter(
            namevar,
            AttributeKind::Text,
            "Name of the resource on the node.",
        ));
    }
    if !attributes.iter().any(|attribute| attribute.role == AttributeRole::Property) {
        return Err(MissingPropertyError);
    }
    Ok(Box::leak(Box::new(TypeSchema {
        type_name: leak_text(name),
        doc: leak_text(&description.doc),
        namevar: leak_text(&description.namevar),
        attributes: Vec::leak(attributes),
    })))
}

fn build_attribute(name: &str, description: &ExternalAttribute) -> AttributeSchema {
    let leak_values = || -> &'static [&'static str] {
        Vec::leak(description.values.iter().map(|value| leak_text(value)).collect())
    };
    let kind = match description.kind {
        ExternalAttributeKind::String if !description.values.is_empty() => {
            AttributeKind::Word(leak_values())
        }
        ExternalAttributeKind::String => AttributeKind::Text,
        ExternalAttributeKind::Integer => AttributeKind::Int,
        ExternalAttributeKind::Boolean => AttributeKind::Bool,
        ExternalAttributeKind::List => AttributeKind::List,
        ExternalAttributeKind::Path => AttributeKind::AbsolutePath,
        ExternalAttributeKind::Any => AttributeKind::Data,
    };
    AttributeSchema {
        name: leak_text(name),
        role: if description.property { AttributeRole::Property } else { AttributeRole::Parameter },
        kind,
        default: description.default.as_deref().map(leak_text),
        sensitive: description.sensitive,
        comma_separated: false,
        doc: leak_text(&description.description),
    }
}
