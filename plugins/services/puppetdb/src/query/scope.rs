//! What a condition says of nodes and reports, so that a query of one node does not read all.

use std::collections::BTreeSet;

use serde_json::Value;

use super::condition::{Condition, ValueSet};
use super::value::CompareOperator;

/// The rows that can be selected; all where a part is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct QueryScope {
    pub(super) certnames: Option<BTreeSet<String>>,
    pub(super) reports: Option<BTreeSet<String>>,
    /// Only the latest report of each node.
    pub(super) is_latest: bool,
}

impl QueryScope {
    pub(super) fn of(condition: Option<&Condition>) -> Self {
        let mut scope = Self::default();
        if let Some(condition) = condition {
            scope.narrow(condition);
        }
        scope
    }

    /// Whether rows of a node can be selected.
    pub(super) fn has_node(&self, name: &str) -> bool {
        self.certnames.as_ref().is_none_or(|names| names.contains(name))
    }

    fn narrow(&mut self, condition: &Condition) {
        match condition {
            Condition::All(list) => list.iter().for_each(|inner| self.narrow(inner)),
            Condition::Compare { field, operator: CompareOperator::Equal, wanted } => {
                match (field.column, wanted) {
                    ("latest_report?", Value::Bool(true)) => self.is_latest = true,
                    (column, Value::String(text)) => {
                        self.keep(column, [text.clone()].into());
                    }
                    _ => {}
                }
            }
            Condition::In { fields, values: ValueSet::Known(keys) } => {
                if let [field] = fields.as_slice() {
                    let texts = keys.iter().filter_map(|key| {
                        serde_json::from_str::<[String; 1]>(key).ok().map(|[text]| text)
                    });
                    self.keep(field.column, texts.collect());
                }
            }
            _ => {}
        }
    }

    /// Keeps rows with one of these values.
    fn keep(&mut self, column: &str, texts: BTreeSet<String>) {
        let kept = match column {
            "certname" => &mut self.certnames,
            "hash" | "report" => &mut self.reports,
            _ => return,
        };
        *kept = Some(match kept.take() {
            Some(known) => known.intersection(&texts).cloned().collect(),
            None => texts,
        });
    }
}
