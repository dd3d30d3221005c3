//! Evaluates a query for a node. Cannot fail, copies nothing, and recurses no deeper than the query and the facts are nested.
//!
//! A field that is a list satisfies a test if the list or one of its elements does; several tests of a field may be satisfied
//! by different elements. `$ne`, `$nin` and `$not` are exact negations, so they are true for missing fields.

use super::DocumentQuery;
use super::clause::DocumentClause;
use super::path::DocumentPath;
use super::value::NodeValue;
use super::walk::{DocumentScope, VisitValue};
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

/// What a test is applied to: the values of a path, or one element of a list.
#[derive(Clone, Copy)]
pub(super) struct TestSubject<'a> {
    pub(super) values: SubjectValues<'a>,
    /// Whether numbers equal texts of the same number.
    pub(super) loose: bool,
}

#[derive(Clone, Copy)]
pub(super) enum SubjectValues<'a> {
    Path(&'a DocumentPath, DocumentScope<'a>),
    Element(NodeValue<'a>),
}

impl<'a> TestSubject<'a> {
    /// Whether `visit` is true for one of the values; lists are visited as a whole only.
    pub(super) fn any_whole(self, visit: VisitValue<'a, '_>) -> bool {
        match self.values {
            SubjectValues::Path(path, scope) => path.any_value(scope, visit),
            SubjectValues::Element(value) => visit(Some(value)),
        }
    }

    /// Whether `visit` is true for one of the values, or for one element of a value that is a list. An element of a list that is a list itself
    /// is visited as a whole only.
    pub(super) fn any_part(self, visit: VisitValue<'a, '_>) -> bool {
        match self.values {
            SubjectValues::Path(path, scope) => path.any_value(scope, &mut |value| {
                visit(value)
                    || value.is_some_and(|value| value.any_element(&mut |item| visit(Some(item))))
            }),
            SubjectValues::Element(value) => visit(Some(value)),
        }
    }
}
