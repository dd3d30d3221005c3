//! The built-in resource types and their attributes: for completion, and so that a caller can convert and check values before it sends a request.
//!
//! `resource_types.json` is generated from the types by a test of the resource engine. These rules refuse only what a node of this version refuses;
//! everything else is left to the node, because only the node knows its foreign types.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use muster_base::nearest_name;
use serde::Deserialize;

use crate::violation::ValueViolation;

const DOCUMENT: &str = include_str!("../resource_types.json");

/// Types of Puppet and of common modules whose names resemble built-in ones. Any other similar name is probably a typing error.
const FOREIGN_TYPES: [&str; 10] = [
    "acl",
    "computer",
    "interface",
    "k5login",
    "maillist",
    "mcx",
    "mounttab",
    "router",
    "vlan",
    "zone",
];

static BUILTIN_TYPES: LazyLock<BuiltinResourceTypes> =
    // A test ensures that the document is valid. Without it, nothing is checked here and everything on the node.
    LazyLock::new(|| serde_json::from_str(DOCUMENT).unwrap_or_default());

/// All built-in types.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct BuiltinResourceTypes {
    metaparameters: BTreeMap<String, ResourceAttribute>,
    types: BTreeMap<String, ResourceTypeAttributes>,
}

/// A built-in resource type.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ResourceTypeAttributes {
    /// What it manages, in a sentence or two.
    pub description: String,
    /// Its attributes by name, without those of all types.
    pub attributes: BTreeMap<String, ResourceAttribute>,
}

/// An attribute of a resource type.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ResourceAttribute {
    /// Its meaning, in a sentence.
    pub description: String,
    /// The form of its value.
    pub accepts: AttributeForm,
    /// The keywords that it accepts, all of them for the form [`AttributeForm::Word`].
    #[serde(default)]
    pub values: Vec<String>,
}

/// The form of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttributeForm {
    /// One of the attribute's keywords.
    Word,
    /// Any text.
    Text,
    /// A whole number.
    Integer,
    /// `true`, `false`, `yes` or `no`.
    Boolean,
    /// An absolute path.
    Path,
    /// Permission bits.
    Mode,
    /// Seconds, with or without a fraction.
    Seconds,
    /// A list of texts without commas.
    CommaList,
    /// A list of texts that may contain commas.
    List,
    /// Options of a program: a text, an object, or a list of these.
    Options,
    /// A reference to another resource of a catalog.
    Relation,
}

/// What is known about a type.
#[derive(Debug, Clone, Copy)]
pub(crate) enum KnownResourceType {
    /// A built-in type.
    Builtin(&'static str),
    /// A type that only nodes know.
    Foreign,
}

/// The type of this name.
pub(crate) fn find_type(name: &str) -> KnownResourceType {
    let name = name.to_lowercase();
    BUILTIN_TYPES
        .types
        .get_key_value(&name)
        .map_or(KnownResourceType::Foreign, |(known, _)| KnownResourceType::Builtin(known))
}

/// The built-in type that was probably meant by the name of a foreign type.
pub(crate) fn nearest_type(name: &str) -> Option<String> {
    let name = name.to_lowercase();
    let nearest = nearest_name(&name, BUILTIN_TYPES.types.keys().map(String::as_str));
    nearest.filter(|_| !FOREIGN_TYPES.contains(&name.as_str()))
}

/// The built-in resource types by name.
pub fn builtin_resource_types() -> &'static BTreeMap<String, ResourceTypeAttributes> {
    &BUILTIN_TYPES.types
}

/// An attribute of a built-in type.
pub(crate) fn find_attribute(
    type_name: &str,
    attribute: &str,
) -> Option<&'static ResourceAttribute> {
    let attributes = &BUILTIN_TYPES.types.get(type_name)?.attributes;
    attributes.get(attribute).or_else(|| BUILTIN_TYPES.metaparameters.get(attribute))
}

/// The names of the attributes of a built-in type, without those of all types.
pub(crate) fn attribute_names(type_name: &str) -> impl Iterator<Item = &'static str> {
    let known = BUILTIN_TYPES.types.get(type_name).into_iter();
    known.flat_map(|known| known.attributes.keys()).map(String::as_str)
}

/// The attribute that was probably meant.
pub(crate) fn nearest_attribute(type_name: &str, attribute: &str) -> Option<String> {
    let own = nearest_name(attribute, attribute_names(type_name));
    own.or_else(|| nearest_name(attribute, BUILTIN_TYPES.metaparameters.keys().map(String::as_str)))
}

impl ResourceAttribute {
    /// Checks a text as it is typed. Lists are checked by the node.
    pub(crate) fn check_text(&self, text: &str) -> Result<(), ValueViolation> {
        let (is_valid, requirement) = match self.accepts {
            AttributeForm::Word if !self.values.iter().any(|word| word == text) => {
                return Err(ValueViolation::NotAChoice(self.values.clone()));
            }
            AttributeForm::Integer => (text.parse::<i64>().is_ok(), "a whole number"),
            AttributeForm::Boolean => {
                (["true", "false", "yes", "no"].contains(&text), "true or false")
            }
            AttributeForm::Path => (is_absolute_path(text), "an absolute path without `..`"),
            AttributeForm::Mode => (may_be_mode(text), "permission bits such as 0644 or u+rw,go-w"),
            AttributeForm::Seconds => (may_be_seconds(text), "seconds such as 300 or 0.5"),
            AttributeForm::Relation => {
                (false, "left out, because it relates resources of a catalog")
            }
            AttributeForm::Word
            | AttributeForm::Text
            | AttributeForm::CommaList
            | AttributeForm::List
            | AttributeForm::Options => return Ok(()),
        };
        if is_valid { Ok(()) } else { Err(ValueViolation::Requirement(requirement)) }
    }
}

fn is_absolute_path(text: &str) -> bool {
    text.starts_with('/') && !text.split('/').any(|part| part == "..")
}

/// Whether the text has only characters of permission bits; the node checks their order.
fn may_be_mode(text: &str) -> bool {
    text.chars().all(|c| "01234567ugoa+-=rwxXst,".contains(c))
}

fn may_be_seconds(text: &str) -> bool {
    text.parse::<f64>().is_ok_and(|seconds| seconds >= 0.0)
}
