//! Paths of values that are listed and counted: `os.family` is a fact, and `state.puppet.disabled` a part of the state of a subsystem.

use std::fmt;

use muster_filter::state::{FactPath, FactPathError, NodeFacts};
use serde_json::Value;

/// What begins the paths of states. A fact with the name `state` is reached as `"state".x`.
const STATE_PREFIX: &str = "state.";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValuePath {
    Fact(FactPath),
    State(FactPath),
}

impl ValuePath {
    pub fn parse(text: &str) -> Result<Self, FactPathError> {
        match text.strip_prefix(STATE_PREFIX) {
            Some(rest) => FactPath::parse(rest).map(Self::State),
            None => FactPath::parse(text).map(Self::Fact),
        }
    }

    /// The path below the facts.
    pub(crate) fn fact(&self) -> Option<&FactPath> {
        match self {
            Self::Fact(path) => Some(path),
            Self::State(_) => None,
        }
    }

    /// The path below the state.
    pub(crate) fn state(&self) -> Option<&FactPath> {
        match self {
            Self::State(path) => Some(path),
            Self::Fact(_) => None,
        }
    }

    pub(crate) fn find<'a>(&self, facts: &'a NodeFacts, state: &'a NodeFacts) -> Option<&'a Value> {
        match self {
            Self::Fact(path) => facts.get_path(path),
            Self::State(path) => state.get_path(path),
        }
    }
}

impl fmt::Display for ValuePath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fact(path) => out.write_str(path.as_str()),
            Self::State(path) => write!(out, "{STATE_PREFIX}{}", path.as_str()),
        }
    }
}
