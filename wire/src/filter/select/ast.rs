//! What an expression is made of: as it was written ([`Statement`]), and as it was understood ([`Condition`]).

use super::semver::Constraint;
use crate::filter::known::Lookup;
use crate::filter::pattern::Pattern;
use crate::filter::term::{Literal, Operand, Operator};
use crate::state::FactPath;

/// Statements or conditions joined by `and`, `or` and `not`. Lists have two elements or more, and none of the
/// list's own kind: however an expression was bracketed, what means the same on sight is the same tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tree<T> {
    All(Vec<Tree<T>>),
    Any(Vec<Tree<T>>),
    Not(Box<Tree<T>>),
    Term(T),
}

impl<T> Tree<T> {
    /// `a and b and ...`.
    pub(super) fn all(first: Self, others: Vec<Self>) -> Self {
        if others.is_empty() {
            return first;
        }
        let mut list = Vec::new();
        for tree in [first].into_iter().chain(others) {
            match tree {
                Self::All(inner) => list.extend(inner),
                other => list.push(other),
            }
        }
        Self::All(list)
    }

    /// `a or b or ...`.
    pub(super) fn any(first: Self, others: Vec<Self>) -> Self {
        if others.is_empty() {
            return first;
        }
        let mut list = Vec::new();
        for tree in [first].into_iter().chain(others) {
            match tree {
                Self::Any(inner) => list.extend(inner),
                other => list.push(other),
            }
        }
        Self::Any(list)
    }

    /// `not a`.
    pub(super) fn not(tree: Self) -> Self {
        Self::Not(Box::new(tree))
    }

    /// What stands between `and`, `or` and `not`, as written.
    pub(super) fn terms(&self) -> Vec<&T> {
        match self {
            Self::All(list) | Self::Any(list) => list.iter().flat_map(Self::terms).collect(),
            Self::Not(inner) => inner.terms(),
            Self::Term(term) => vec![term],
        }
    }

    /// How deep the tree is; no print of it nests deeper.
    pub(super) fn depth(&self) -> usize {
        match self {
            Self::All(list) | Self::Any(list) => {
                1 + list.iter().map(Self::depth).max().unwrap_or(0)
            }
            Self::Not(inner) => 1 + inner.depth(),
            Self::Term(_) => 0,
        }
    }
}

/// What stands between `and`, `or` and `not`, as written.
#[derive(Debug)]
pub(super) struct Statement {
    pub(super) left: Value,
    /// How it is compared, and with what; nothing, if it stands alone.
    pub(super) comparison: Option<(Comparison, Value)>,
    /// Where the statement ends, in bytes.
    pub(super) end: usize,
}

/// How two values are compared.
#[derive(Debug, Clone, Copy)]
pub(super) enum Comparison {
    Operator(Operator),
    In,
    NotIn,
}

/// Something written, and where: in bytes from the start of the expression.
#[derive(Debug)]
pub(super) struct Value {
    pub(super) at: usize,
    pub(super) kind: ValueKind,
}

#[derive(Debug)]
pub(super) enum ValueKind {
    /// Without quotes.
    Word(String),
    /// Between quotes, which are gone.
    Text(String),
    /// With its slashes.
    Regex(String),
    List(Vec<Value>),
    Call(Call),
}

/// `source("argument").field`.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) source: String,
    pub(super) arguments: Vec<Value>,
    pub(super) field: Option<Field>,
}

/// What stands behind the dot of a call, and where.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) at: usize,
    pub(super) name: String,
}

/// What is asked of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Condition {
    /// A value, and what it must satisfy.
    Of(Subject, Test),
    Class(Pattern),
    Agent(Pattern),
    /// A class or an agent.
    With(Pattern),
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Subject {
    Fact(FactPath),
    Output(Output),
}

/// One output of a data source: `service("sshd").running`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Output {
    pub(super) lookup: Lookup,
    pub(super) name: String,
}

/// What is demanded of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Test {
    Compare(Operator, Operand),
    /// It is a list or a map, and this is in it.
    Include(Literal),
    /// It is a version of this kind.
    Version(Constraint),
}
