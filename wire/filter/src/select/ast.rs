//! The syntax trees of expressions: as written ([`SelectStatement`]), and as checked ([`SelectCondition`]).

use super::semver::VersionConstraint;
use crate::boolean_tree::BooleanTree;
use crate::lookup::DataLookup;
use crate::pattern::FilterPattern;
use crate::state::FactPath;
use crate::term::{FactOperand, FactOperator, LiteralOperand};

/// An expression as written.
pub(super) type StatementTree = BooleanTree<SelectStatement>;

/// A checked expression.
pub(super) type ConditionTree = BooleanTree<SelectCondition>;

/// One operand of `and`, `or` and `not`, as written.
#[derive(Debug)]
pub(super) struct SelectStatement {
    pub(super) left: SelectValue,
    /// The comparison operator and right side; `None` if the value stands alone.
    pub(super) comparison: Option<(ComparisonOperator, SelectValue)>,
    /// End offset of the statement, in bytes.
    pub(super) end: usize,
}

/// A comparison operator.
#[derive(Debug, Clone, Copy)]
pub(super) enum ComparisonOperator {
    Operator(FactOperator),
    In,
    NotIn,
}

/// A parsed value with its byte offset from the start of the expression.
#[derive(Debug)]
pub(super) struct SelectValue {
    pub(super) at: usize,
    pub(super) kind: SelectValueKind,
}

#[derive(Debug)]
pub(super) enum SelectValueKind {
    /// Without quotes.
    Word(String),
    /// A quoted text, without its quotes.
    Text(String),
    /// With its slashes.
    Regex(String),
    List(Vec<SelectValue>),
    Call(FunctionCall),
}

/// `source("argument").field`.
#[derive(Debug)]
pub(super) struct FunctionCall {
    pub(super) source: String,
    pub(super) arguments: Vec<SelectValue>,
    pub(super) field: Option<CallField>,
}

/// The field after the dot of a call, with its offset.
#[derive(Debug)]
pub(super) struct CallField {
    pub(super) at: usize,
    pub(super) name: String,
}

/// A condition on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SelectCondition {
    /// A value and its test.
    Test(ConditionSubject, ValueTest),
    Class(FilterPattern),
    Agent(FilterPattern),
    /// A class or an agent.
    With(FilterPattern),
}

/// The source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ConditionSubject {
    Fact(FactPath),
    Output(SourceOutput),
}

/// One output of a data source: `service("sshd").running`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SourceOutput {
    pub(super) lookup: DataLookup,
    pub(super) name: String,
}

/// A test of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ValueTest {
    Compare(FactOperator, FactOperand),
    /// The value is a list or a map that contains this.
    Include(LiteralOperand),
    /// The value is a version that satisfies this.
    Version(VersionConstraint),
}
