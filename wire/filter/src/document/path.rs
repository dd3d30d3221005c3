//! Paths of a query: into the document of a node (`facts.os.family`, `classes`), or into an element of a list.

use std::fmt;

use muster_base::nearest_name;

use crate::error::{FaultContext as _, FilterFault, Result, expected_at};
use crate::state::{FactPath, MapField};
use crate::term::read_path;
use crate::text::join_phrases;

/// The fields of a node's document, in the order in which errors and the reference list them.
pub(super) fn document_fields() -> impl Iterator<Item = &'static str> {
    let fixed = ["identity", "facts", "classes", "agents", "collectives"];
    fixed.into_iter().chain(MapField::optional().map(MapField::as_str))
}

/// A path of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DocumentPath {
    Identity,
    /// A map as a whole, or one path in it.
    Map(MapField, Option<FactPath>),
    /// A list of names, or one by its index.
    Names(NameField, Option<usize>),
    /// A path into a map that is an element of a list.
    Element(FactPath),
}

/// The fields that are lists of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameField {
    Agents,
    Classes,
    Collectives,
}

impl DocumentPath {
    /// Parses a key of a query for nodes.
    pub(super) fn parse(key: &str) -> Result<Self> {
        let (field, rest) = match key.split_once('.') {
            Some((field, rest)) => (field, Some(rest)),
            None => (key, None),
        };
        let rest_at = field.len() + 1;
        let path = || rest.map(read_path).transpose().shifted_by(rest_at);
        let names = match field {
            "identity" => {
                return match rest {
                    None => Ok(Self::Identity),
                    Some(_) => expected_at(rest_at - 1, "the end of the key: identity is a text"),
                };
            }
            "agents" => NameField::Agents,
            "classes" => NameField::Classes,
            "collectives" => NameField::Collectives,
            _ => {
                return match MapField::from_name(field) {
                    Some(map) => path().map(|path| Self::Map(map, path)),
                    None => Err(unknown_field(field)),
                };
            }
        };
        let Some(rest) = rest else { return Ok(Self::Names(names, None)) };
        let is_index = !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit());
        match rest.parse() {
            Ok(index) if is_index => Ok(Self::Names(names, Some(index))),
            _ => expected_at(
                rest_at,
                format!("an index or the end of the key: {field} is a list of texts"),
            ),
        }
    }

    /// Parses a key of a query for elements.
    pub(super) fn parse_element(key: &str) -> Result<Self> {
        read_path(key).map(Self::Element)
    }
}

/// Unknown fields are refused: as missing values, they would satisfy `$ne` and `$exists: false` on every node.
fn unknown_field(field: &str) -> FilterFault {
    let known = match field {
        "agentlist" | "agent" => Some("agents"),
        "class" => Some("classes"),
        "collective" => Some("collectives"),
        "fact" => Some("facts"),
        "fqdn" | "name" | "certname" | "hostname" => Some("identity"),
        _ => None,
    };
    let hint = known.map(str::to_owned).or_else(|| nearest_name(field, document_fields()));
    let hint = match hint {
        Some(nearest) => format!("did you mean {nearest}?"),
        None => format!("a fact is written facts.{field}"),
    };
    let fields = join_phrases(document_fields(), "or");
    FilterFault::new(0, format!("{fields} ({hint})"))
}

impl NameField {
    pub(super) fn singular(self) -> &'static str {
        match self {
            Self::Agents => "agent",
            Self::Classes => "class",
            Self::Collectives => "collective",
        }
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Agents => "agents",
            Self::Classes => "classes",
            Self::Collectives => "collectives",
        }
    }
}

impl fmt::Display for DocumentPath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Identity => out.write_str("identity"),
            Self::Map(field, None) => out.write_str(field.as_str()),
            Self::Map(field, Some(path)) => write!(out, "{}.{path}", field.as_str()),
            Self::Names(field, None) => out.write_str(field.as_str()),
            Self::Names(field, Some(index)) => write!(out, "{}.{index}", field.as_str()),
            Self::Element(path) => path.fmt(out),
        }
    }
}
