//! Evaluates a query for a node. Cannot fail, copies nothing, and recurses no deeper than the query and the facts are nested.
//!
//! A field that is a list satisfies a test if the list or one of its elements does; several tests of a field may be satisfied
//! by different elements. `$ne`, `$nin` and `$not` are exact negations, so they are true for missing fields.

use std::cmp::Ordering;

use super::DocumentQuery;
use super::ast::{
    ClauseList, DocumentClause, ElementTest, FieldTest, LogicOperator, OrderOperator, QueryValue,
};
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
        self.0.evaluate_clauses(DocumentScope::Node(node), false)
    }

    /// Each condition of the query with its truth value.
    pub(crate) fn evaluate_conditions(&self, node: &NodeView<'_>) -> Vec<(String, TruthValue)> {
        let scope = DocumentScope::Node(node);
        let conditions = self.conditions().into_iter();
        conditions
            .map(|clause| (format!("{{{clause}}}"), clause.evaluate_clause(scope, false)))
            .collect()
    }

    /// The clauses of the query, and those of an outermost `$and`.
    pub(super) fn conditions(&self) -> Vec<&DocumentClause> {
        let clauses = self.0.0.iter();
        clauses
            .flat_map(|clause| match clause {
                DocumentClause::Logic(LogicOperator::And, list) => {
                    list.iter().flat_map(|document| &document.0).collect()
                }
                other => vec![other],
            })
            .collect()
    }
}

impl ClauseList {
    fn evaluate_clauses(&self, scope: DocumentScope<'_>, loose: bool) -> TruthValue {
        let truths = self.0.iter().map(|clause| clause.evaluate_clause(scope, loose));
        all_true(truths)
    }
}

/// Logical and, which ends at the first false value.
fn all_true(truths: impl Iterator<Item = TruthValue>) -> TruthValue {
    let mut result = TruthValue::True;
    for truth in truths {
        result = result.and(truth);
        if result == TruthValue::False {
            break;
        }
    }
    result
}

impl DocumentClause {
    fn evaluate_clause(&self, scope: DocumentScope<'_>, loose: bool) -> TruthValue {
        match self {
            Self::Field(path, _) if !path.is_known(scope) => TruthValue::Unknown,
            Self::Field(path, tests) => {
                let subject = TestSubject::Path(path, scope);
                tests.iter().all(|test| test.is_true(subject, loose)).into()
            }
            Self::Loose(inner) => inner.evaluate_clauses(scope, true),
            Self::Pql(query) => match scope {
                DocumentScope::Node(node) => query.evaluate(node),
                // The compiler refuses it.
                DocumentScope::Element(_) => TruthValue::False,
            },
            Self::Logic(operator, list) => {
                let truths = list.iter().map(|document| document.evaluate_clauses(scope, loose));
                match operator {
                    LogicOperator::And => all_true(truths),
                    LogicOperator::Or => !all_true(truths.map(|truth| !truth)),
                    LogicOperator::Nor => all_true(truths.map(|truth| !truth)),
                }
            }
        }
    }
}

/// What a test is applied to: the values of a path, or one element of a list.
#[derive(Clone, Copy)]
enum TestSubject<'a> {
    Path(&'a DocumentPath, DocumentScope<'a>),
    Element(NodeValue<'a>),
}

impl<'a> TestSubject<'a> {
    /// Whether `visit` is true for one of the values; lists are visited as a whole only.
    fn any_whole(self, visit: VisitValue<'a, '_>) -> bool {
        match self {
            Self::Path(path, scope) => path.any_value(scope, visit),
            Self::Element(value) => visit(Some(value)),
        }
    }

    /// Whether `visit` is true for one of the values, or for one element of a value that is a list. An element of a list that is a list itself
    /// is visited as a whole only.
    fn any_part(self, visit: VisitValue<'a, '_>) -> bool {
        match self {
            Self::Path(path, scope) => path.any_value(scope, &mut |value| {
                visit(value)
                    || value.is_some_and(|value| value.any_element(&mut |item| visit(Some(item))))
            }),
            Self::Element(value) => visit(Some(value)),
        }
    }
}

impl FieldTest {
    fn is_true(&self, subject: TestSubject<'_>, loose: bool) -> bool {
        match self {
            Self::Equal(literal) => subject.any_part(&mut |value| is_equal(value, literal, loose)),
            Self::NotEqual(literal) => {
                !subject.any_part(&mut |value| is_equal(value, literal, loose))
            }
            Self::Order(operator, literal) => {
                subject.any_part(&mut |value| operator.is_satisfied(value, literal, loose))
            }
            Self::In(items) => items.iter().any(|item| item.is_true(subject, loose)),
            Self::NotIn(items) => !items.iter().any(|item| item.is_true(subject, loose)),
            Self::All(items) => {
                !items.is_empty() && items.iter().all(|item| item.is_true(subject, loose))
            }
            Self::Exists(wanted) => subject.any_whole(&mut |value| value.is_some()) == *wanted,
            Self::Size(count) => subject.any_whole(&mut |value| {
                let length = value.and_then(NodeValue::list_length);
                length.is_some_and(|length| u64::try_from(length) == Ok(*count))
            }),
            Self::Type(types) => subject.any_part(&mut |value| {
                value.is_some_and(|value| types.iter().any(|wanted| value.has_type(*wanted)))
            }),
            Self::Modulo(divisor, remainder) => subject.any_part(&mut |value| {
                let number = value.and_then(NodeValue::as_integer);
                number.is_some_and(|number| {
                    number.checked_rem(i128::from(*divisor)) == Some(i128::from(*remainder))
                })
            }),
            Self::Match(regex) => subject.any_part(&mut |value| {
                value.and_then(NodeValue::as_text).is_some_and(|text| regex.is_match(text))
            }),
            Self::Not(tests) => !tests.iter().all(|test| test.is_true(subject, loose)),
            Self::Element(test) => subject.any_whole(&mut |value| {
                value.is_some_and(|value| {
                    value.any_element(&mut |item| test.accepts_element(item, loose))
                })
            }),
        }
    }
}

impl ElementTest {
    fn accepts_element(&self, element: NodeValue<'_>, loose: bool) -> bool {
        match self {
            Self::Values(tests) => {
                tests.iter().all(|test| test.is_true(TestSubject::Element(element), loose))
            }
            Self::Document(document) => element.as_map().is_some_and(|map| {
                let scope = DocumentScope::Element(map);
                document.evaluate_clauses(scope, loose) == TruthValue::True
            }),
        }
    }
}

/// Whether a value equals the literal; null equals a missing value.
fn is_equal(value: Option<NodeValue<'_>>, literal: &QueryValue, loose: bool) -> bool {
    match value {
        Some(value) => value.equals(literal, loose),
        None => *literal == QueryValue::Null,
    }
}

impl OrderOperator {
    fn is_satisfied(self, value: Option<NodeValue<'_>>, literal: &QueryValue, loose: bool) -> bool {
        let ordering = match value {
            Some(value) => value.compare(literal, loose),
            None if *literal == QueryValue::Null => Some(Ordering::Equal),
            None => None,
        };
        ordering.is_some_and(|ordering| self.accepts(ordering))
    }
}
