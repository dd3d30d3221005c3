//! What is known of a node's data sources while a filter is held against it, and how far that gets.
//!
//! Looking something up is somebody else's business: evaluation says what it needs next, is given the answer, and is
//! asked again. So the same evaluation serves a daemon that asks its machine, and a report that asks nobody.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Not;

use serde_json::{Map, Value};

/// One question to a data source: `service("sshd")`. Prints as expressions write it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DataLookup {
    /// The source's name.
    pub source: String,
    /// What it is asked for, if it wants that.
    pub query: Option<String>,
}

/// What became of a question.
#[derive(Debug, Clone, PartialEq)]
pub enum DataLookupResult {
    /// The source's outputs. Null is known to be nothing, like a missing fact; an output that is not in here is unknown.
    Values(Map<String, Value>),
    /// No answer, and why: no such source here, denied, failed, too slow.
    Unknown(String),
}

/// The questions that were asked so far. Empty at first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KnownLookups(BTreeMap<DataLookup, DataLookupResult>);

/// Whether something holds: true, false, or unknown because a data source did not answer or a source of facts was never read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TruthValue {
    /// It holds.
    True,
    /// It does not.
    False,
    /// Nobody can tell. A node for which a whole filter is unknown is not meant.
    Unknown,
}

/// How far an evaluation got: of a filter, to a truth; of a policy, to a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvaluationProgress<'a, T = TruthValue> {
    /// To its end.
    Decided(T),
    /// To this question, which is not among what is known.
    Needs(&'a DataLookup),
}

impl KnownLookups {
    /// Takes an answer in.
    pub fn insert(&mut self, lookup: DataLookup, found: DataLookupResult) {
        self.0.insert(lookup, found);
    }

    /// The answer to a question, if it was asked.
    pub fn get(&self, lookup: &DataLookup) -> Option<&DataLookupResult> {
        self.0.get(lookup)
    }

    /// The questions that were asked in vain.
    pub fn unanswered_lookups(&self) -> impl Iterator<Item = &DataLookup> {
        let unknown =
            |(lookup, found)| matches!(found, &DataLookupResult::Unknown(_)).then_some(lookup);
        self.0.iter().filter_map(unknown)
    }

    /// How many questions were asked.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing was asked.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'a, T> EvaluationProgress<'a, T> {
    /// The same, with something else made of what was decided.
    pub fn map<U>(self, make: impl FnOnce(T) -> U) -> EvaluationProgress<'a, U> {
        match self {
            Self::Decided(decided) => EvaluationProgress::Decided(make(decided)),
            Self::Needs(lookup) => EvaluationProgress::Needs(lookup),
        }
    }
}

impl TruthValue {
    /// Both: false as soon as one is, otherwise unknown as soon as one is.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::False, _) | (_, Self::False) => Self::False,
            (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
            (Self::True, Self::True) => Self::True,
        }
    }

    /// As a word: `true`, `false`, `unknown`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "true",
            Self::False => "false",
            Self::Unknown => "unknown",
        }
    }
}

impl From<bool> for TruthValue {
    fn from(known: bool) -> Self {
        if known { Self::True } else { Self::False }
    }
}

impl Not for TruthValue {
    type Output = Self;

    /// What is unknown stays unknown.
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

/// A text between quotes.
pub(super) struct QuotedText<'a>(pub(super) &'a str);

impl fmt::Display for QuotedText<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let escaped = self.0.replace('\\', "\\\\").replace('"', "\\\"");
        write!(out, "\"{escaped}\"")
    }
}
