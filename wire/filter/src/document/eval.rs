//! Evaluates a query for a node. Cannot fail, copies nothing, and recurses no deeper than the query and the facts are nested.
//!
//! A field that is a list satisfies a test if the list or one of its elements does; several tests of a field may be satisfied
//! by different elements. `$ne`, `$nin` and `$not` are exact negations, so they are true for missing fields.

use super::DocumentQuery;
use super::clause::DocumentClause;
use super::walk::DocumentScope;
use crate::lookup::TruthValue;
use crate::state::NodeView;

impl DocumentQuery {
    /// Whether the query matches the node.
    pub fn matches(&self, node: &NodeView<'_>) -> bool {
        self.evaluate(node) == TruthValue::True
    }

    /// Evaluates the query; unknown if facts or classes that were never read could decide it.
    pub fn evaluate(&self, node: &NodeView<'_>) -> TruthValue {
        self.0.evaluate(DocumentScope::Node(node), false)
    }

    /// Each condition of the query with its truth value.
    pub(crate) fn evaluate_conditions(&self, node: &NodeView<'_>) -> Vec<(String, TruthValue)> {
        let scope = DocumentScope::Node(node);
        let conditions = self.conditions().into_iter();
        conditions.map(|clause| (format!("{{{clause}}}"), clause.evaluate(scope, false))).collect()
    }

    /// The clauses of the query, and those of an outermost `$and`.
    pub(super) fn conditions(&self) -> Vec<&DocumentClause> {
        let clauses = self.0.0.iter();
        clauses
            .flat_map(|clause| match clause {
                DocumentClause::And(list) => list.iter().flat_map(|document| &document.0).collect(),
                other => vec![other],
            })
            .collect()
    }
}
