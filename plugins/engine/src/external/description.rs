//! The description of an external type: a document, and the schema that follows from it. Pure.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::schema::{Attribute, Kind, Role, Schema};

/// `NAME.json`. Unknown keys are refused: a slip of the pen must not make a secret public.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Description {
    /// One or two sentences.
    #[serde(rename = "description")]
    pub(super) doc: String,
    /// The program, in the same directory unless it is absolute.
    pub(super) program: String,
    /// The longest that a call may take, in seconds.
    #[serde(default = "a_minute")]
    pub(super) timeout: u64,
    /// What the title stands for.
    #[serde(default = "name")]
    pub(super) namevar: String,
    /// Whether the program can refresh.
    #[serde(default)]
    pub(super) refreshes: bool,
    /// What the type accepts, `ensure` first, then in the order of the names.
    pub(super) attributes: BTreeMap<String, Described>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Described {
    description: String,
    /// Whether it is compared with the machine and changed, or only says how to go about it.
    #[serde(default)]
    property: bool,
    #[serde(rename = "type", default)]
    kind: Word,
    /// The only values that are taken.
    #[serde(default)]
    values: Vec<String>,
    default: Option<String>,
    /// Never shown.
    #[serde(default)]
    sensitive: bool,
    /// The value names a resource of this type, which comes first.
    pub(super) requires: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    #[default]
    String,
    Integer,
    Boolean,
    List,
    Path,
    Any,
}

fn a_minute() -> u64 {
    60
}

fn name() -> String {
    "name".to_owned()
}

/// Schemas are the engine's constants, and one that is learnt stays as long as the engine: one for each edition of a description.
pub(super) fn leaked_schema(
    name: &str,
    described: &Description,
) -> Result<&'static Schema, String> {
    let mut attributes: Vec<Attribute> = described
        .attributes
        .iter()
        .map(|(name, one)| attribute(name, one))
        .collect();
    attributes.sort_by_key(|attribute| attribute.name != "ensure");
    if !attributes
        .iter()
        .any(|attribute| attribute.name == described.namevar)
    {
        let namevar = leaked(&described.namevar);
        attributes.push(Attribute::parameter(
            namevar,
            Kind::Text,
            "What the machine calls it.",
        ));
    }
    if !attributes
        .iter()
        .any(|attribute| attribute.role == Role::Property)
    {
        return Err("a type needs at least one attribute with `property`: true".to_owned());
    }
    Ok(Box::leak(Box::new(Schema {
        type_name: leaked(name),
        doc: leaked(&described.doc),
        namevar: leaked(&described.namevar),
        attributes: Vec::leak(attributes),
    })))
}

fn attribute(name: &str, described: &Described) -> Attribute {
    let words = || -> &'static [&'static str] {
        Vec::leak(described.values.iter().map(|word| leaked(word)).collect())
    };
    let kind = match described.kind {
        Word::String if !described.values.is_empty() => Kind::Word(words()),
        Word::String => Kind::Text,
        Word::Integer => Kind::Int,
        Word::Boolean => Kind::Bool,
        Word::List => Kind::List,
        Word::Path => Kind::Path,
        Word::Any => Kind::Data,
    };
    Attribute {
        name: leaked(name),
        role: if described.property {
            Role::Property
        } else {
            Role::Parameter
        },
        kind,
        default: described.default.as_deref().map(leaked),
        sensitive: described.sensitive,
        doc: leaked(&described.description),
    }
}

pub(super) fn leaked(text: &str) -> &'static str {
    String::leak(text.to_owned())
}
