//! Holds an expression against a node. Cannot fail; costs at most each condition once.

use serde_json::Value;

use super::Select;
use super::ast::{Condition, Tree};
use super::semver::Constraint;
use crate::filter::pattern::Pattern;
use crate::state::NodeView;

impl Select {
    /// Whether the node is meant.
    pub fn matches(&self, node: &NodeView<'_>) -> bool {
        self.0.matches(node)
    }
}

impl Tree<Condition> {
    fn matches(&self, node: &NodeView<'_>) -> bool {
        match self {
            Self::All(list) => list.iter().all(|tree| tree.matches(node)),
            Self::Any(list) => list.iter().any(|tree| tree.matches(node)),
            Self::Not(inner) => !inner.matches(node),
            Self::Term(condition) => condition.matches(node),
        }
    }
}

impl Condition {
    fn matches(&self, node: &NodeView<'_>) -> bool {
        let found =
            |pattern: &Pattern, names: &[String]| names.iter().any(|name| pattern.matches(name));
        match self {
            Self::Fact(term) => term.matches(node.facts),
            Self::Include(term) => {
                let collection = node.facts.lookup(term.fact());
                collection.is_some_and(|value| value.is_array() || value.is_object())
                    && term.matches(node.facts)
            }
            Self::Version(path, constraint) => node
                .facts
                .lookup(path)
                .is_some_and(|value| constraint.holds_for(value)),
            Self::Class(pattern) => found(pattern, node.classes),
            Self::Agent(pattern) => found(pattern, node.agents),
            Self::With(pattern) => found(pattern, node.classes) || found(pattern, node.agents),
        }
    }
}

impl Constraint {
    /// Whether a fact is such a version, or a list with such a version in it.
    fn holds_for(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => self.accepts(text),
            Value::Number(number) => self.accepts(&number.to_string()),
            Value::Array(items) => items.iter().any(|item| self.holds_for(item)),
            _ => false,
        }
    }
}
