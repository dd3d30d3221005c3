//! Data source lookups during evaluation: questions, results and the evaluation's progress.
//!
//! Evaluation performs no lookups: it returns the next lookup it needs, and the caller evaluates again with the result. So the
//! same evaluation serves a daemon that queries its machine and a report without data sources.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Not;

use serde_json::{Map, Value};

/// One query of a data source: `service("sshd")`. `Display` prints the expression syntax.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DataLookup {
    /// The source's name.
    pub source: String,
    /// The query argument, if the source takes one.
    pub query: Option<String>,
}

/// The result of a lookup.
#[derive(Debug, Clone, PartialEq)]
pub enum DataLookupResult {
    /// The source's outputs. Null counts as a missing fact; an output that is absent here is unknown.
    Values(Map<String, Value>),
    /// No result, with the reason: unknown source, denied, failed or timed out.
    Unknown(String),
}

/// The results so far. Empty at first.
pub type KnownLookups = BTreeMap<DataLookup, DataLookupResult>;

/// A truth value: unknown if a data source returned no result, or a fact source was never read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TruthValue {
    /// True.
    True,
    /// False.
    False,
    /// Unknown. A node for which the whole filter is unknown does not match.
    Unknown,
}

/// Progress of an evaluation: of a filter to a truth value, or of a policy to a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvaluationProgress<'a, T = TruthValue> {
    /// Finished.
    Decided(T),
    /// Needs this lookup, whose result is not known yet.
    Needs(&'a DataLookup),
}

impl<'a, T> EvaluationProgress<'a, T> {
    /// Maps the decided value.
    pub fn map<U>(self, convert: impl FnOnce(T) -> U) -> EvaluationProgress<'a, U> {
        match self {
            Self::Decided(value) => EvaluationProgress::Decided(convert(value)),
            Self::Needs(lookup) => EvaluationProgress::Needs(lookup),
        }
    }
}

impl TruthValue {
    /// Logical and: false if either is false, else unknown if either is unknown.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::False, _) | (_, Self::False) => Self::False,
            (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
            (Self::True, Self::True) => Self::True,
        }
    }

    /// The value as text: `true`, `false`, `unknown`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "true",
            Self::False => "false",
            Self::Unknown => "unknown",
        }
    }
}

impl From<bool> for TruthValue {
    fn from(value: bool) -> Self {
        if value { Self::True } else { Self::False }
    }
}

impl Not for TruthValue {
    type Output = Self;

    /// The negation of unknown is unknown.
    fn not(self) -> Self {
        match self {
            Self::True => Self::False,
            Self::False => Self::True,
            Self::Unknown => Self::Unknown,
        }
    }
}

impl fmt::Display for TruthValue {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl fmt::Display for DataLookup {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.query {
            Some(query) => write!(out, "{}({})", self.source, QuotedText(query)),
            None => write!(out, "{}()", self.source),
        }
    }
}

/// Displays a text in quotes.
pub(super) struct QuotedText<'a>(pub(super) &'a str);

impl fmt::Display for QuotedText<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let escaped = self.0.replace('\\', "\\\\").replace('"', "\\\"");
        write!(out, "\"{escaped}\"")
    }
}
