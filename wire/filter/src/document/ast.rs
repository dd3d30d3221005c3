//! The expression tree of a query. `compile` builds it, `print` prints it in a form that `compile` converts to the same tree.

use std::cmp::Ordering;

use serde_json::Number;

use super::date::QueryDate;
use super::path::DocumentPath;
use super::pql::PqlQuery;
use crate::pattern::FilterRegex;

/// A query document: all clauses must be true.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ClauseList(pub(super) Vec<DocumentClause>);

/// One key of a query document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DocumentClause {
    /// A path and its tests, all of which must be true.
    Field(DocumentPath, Vec<FieldTest>),
    /// `$and`, `$or` or `$nor` with at least one document.
    Logic(LogicOperator, Vec<ClauseList>),
    /// `$loose`: equality and order compare numbers with texts of the same number.
    Loose(ClauseList),
    /// `$pql`: a query of `PuppetDB`.
    Pql(Box<PqlQuery>),
}

/// Operators on query documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LogicOperator {
    And,
    Or,
    Nor,
}

/// One test of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FieldTest {
    Equal(QueryValue),
    NotEqual(QueryValue),
    Order(OrderOperator, QueryValue),
    /// One of these values or regular expressions.
    In(Vec<FieldTest>),
    NotIn(Vec<FieldTest>),
    /// All of these values, regular expressions or `$elemMatch`.
    All(Vec<FieldTest>),
    Exists(bool),
    Size(u64),
    Type(Vec<JsonType>),
    /// The divisor, which is not 0, and the remainder.
    Modulo(i64, i64),
    Match(FilterRegex),
    Not(Vec<FieldTest>),
    Element(ElementTest),
}

/// The operand of `$elemMatch`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ElementTest {
    /// Tests of an element.
    Values(Vec<FieldTest>),
    /// A query document for an element that is a map.
    Document(ClauseList),
}

/// Operators that order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OrderOperator {
    Greater,
    AtLeast,
    Less,
    AtMost,
}

/// A literal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum QueryValue {
    Null,
    Boolean(bool),
    Number(Number),
    Text(String),
    Date(QueryDate),
    List(Vec<QueryValue>),
    Map(Vec<(String, QueryValue)>),
}

/// The types of JSON values, by the names of `MongoDB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JsonType {
    Array,
    Bool,
    Double,
    Int,
    Long,
    Null,
    Number,
    Object,
    String,
}

impl LogicOperator {
    pub(super) const ALL: [Self; 3] = [Self::And, Self::Or, Self::Nor];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::And => "$and",
            Self::Or => "$or",
            Self::Nor => "$nor",
        }
    }
}

impl OrderOperator {
    pub(super) const ALL: [Self; 4] = [Self::Greater, Self::AtLeast, Self::Less, Self::AtMost];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Greater => "$gt",
            Self::AtLeast => "$gte",
            Self::Less => "$lt",
            Self::AtMost => "$lte",
        }
    }

    /// Whether this order of a value to the operand satisfies the operator.
    pub(super) fn accepts(self, ordering: Ordering) -> bool {
        match self {
            Self::Greater => ordering.is_gt(),
            Self::AtLeast => ordering.is_ge(),
            Self::Less => ordering.is_lt(),
            Self::AtMost => ordering.is_le(),
        }
    }
}

impl JsonType {
    /// Each type with its number in `MongoDB`.
    pub(super) const ALL: [(Self, Option<u64>); 9] = [
        (Self::Array, Some(4)),
        (Self::Bool, Some(8)),
        (Self::Double, Some(1)),
        (Self::Int, Some(16)),
        (Self::Long, Some(18)),
        (Self::Null, Some(10)),
        (Self::Number, None),
        (Self::Object, Some(3)),
        (Self::String, Some(2)),
    ];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Array => "array",
            Self::Bool => "bool",
            Self::Double => "double",
            Self::Int => "int",
            Self::Long => "long",
            Self::Null => "null",
            Self::Number => "number",
            Self::Object => "object",
            Self::String => "string",
        }
    }
}

impl ClauseList {
    /// Whether every document matches.
    pub(super) fn is_unconditional(&self) -> bool {
        self.0.iter().all(|clause| match clause {
            DocumentClause::Field(..) => false,
            DocumentClause::Loose(inner) => inner.is_unconditional(),
            DocumentClause::Pql(query) => query.is_unconditional(),
            DocumentClause::Logic(operator, list) => match operator {
                LogicOperator::And => list.iter().all(Self::is_unconditional),
                LogicOperator::Or => list.iter().any(Self::is_unconditional),
                LogicOperator::Nor => false,
            },
        })
    }
}
