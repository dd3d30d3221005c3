//! Paths of a query: into the document of a node (`facts.os.family`, `classes`), or into an element of a list.

use std::fmt;

use muster_base::nearest_name;

use crate::error::{FaultContext as _, FilterFault, Result, expected_at};
use crate::state::FactPath;
use crate::term::read_path;

/// The fields of a node's document.
pub(super) const DOCUMENT_FIELDS: [&str; 6] =
    ["agents", "classes", "collectives", "facts", "identity", "state"];

/// A path of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DocumentPath {
    Identity,
    /// All facts as one map, or one path.
    Facts(Option<FactPath>),
    /// The state of all subsystems as one map, or one path.
    State(Option<FactPath>),
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
            "facts" => return path().map(Self::Facts),
            "state" => return path().map(Self::State),
            "agents" => NameField::Agents,
            "classes" => NameField::Classes,
            "collectives" => NameField::Collectives,
            _ => return Err(unknown_field(field)),
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
    let hint = known.map(str::to_owned).or_else(|| nearest_name(field, DOCUMENT_FIELDS));
    let hint = match hint {
        Some(nearest) => format!("did you mean {nearest}?"),
        None => format!("a fact is written facts.{field}"),
    };
    FilterFault::new(0, format!("identity, facts, classes, agents, collectives or state ({hint})"))
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
            Self::Facts(None) => out.write_str("facts"),
            Self::Facts(Some(path)) => write!(out, "facts.{path}"),
            Self::State(None) => out.write_str("state"),
            Self::State(Some(path)) => write!(out, "state.{path}"),
            Self::Names(field, None) => out.write_str(field.as_str()),
            Self::Names(field, Some(index)) => write!(out, "{}.{index}", field.as_str()),
            Self::Element(path) => path.fmt(out),
        }
    }
}
