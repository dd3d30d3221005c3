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
pub struct Lookup {
    /// The source's name.
    pub source: String,
    /// What it is asked for, if it wants that.
    pub query: Option<String>,
}

/// What became of a question.
#[derive(Debug, Clone, PartialEq)]
pub enum Found {
    /// The source's outputs. Null is known to be nothing, like a missing fact; an output that is not in here is unknown.
    Values(Map<String, Value>),
    /// No answer, and why: no such source here, denied, failed, too slow.
    Unknown(String),
}

/// The questions that were asked so far. Empty at first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Known(BTreeMap<Lookup, Found>);

/// Whether something holds: true, false, or unknown because a data source did not answer or a source of facts was never read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truth {
    /// It holds.
    True,
    /// It does not.
    False,
    /// Nobody can tell. A node for which a whole filter is unknown is not meant.
    Unknown,
}

/// How far an evaluation got: of a filter, to a truth; of a policy, to a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress<'a, T = Truth> {
    /// To its end.
    Decided(T),
    /// To this question, which is not among what is known.
    Needs(&'a Lookup),
}

impl Known {
    /// Takes an answer in.
    pub fn insert(&mut self, lookup: Lookup, found: Found) {
        self.0.insert(lookup, found);
    }

    /// The answer to a question, if it was asked.
    pub fn get(&self, lookup: &Lookup) -> Option<&Found> {
        self.0.get(lookup)
    }

    /// The questions that were asked in vain.
    pub fn unanswered(&self) -> impl Iterator<Item = &Lookup> {
        let unknown = |(lookup, found)| matches!(found, &Found::Unknown(_)).then_some(lookup);
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

impl<'a, T> Progress<'a, T> {
    /// The same, with something else made of what was decided.
    pub fn map<U>(self, make: impl FnOnce(T) -> U) -> Progress<'a, U> {
        match self {
            Self::Decided(decided) => Progress::Decided(make(decided)),
            Self::Needs(lookup) => Progress::Needs(lookup),
        }
    }
}

impl Truth {
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

impl From<bool> for Truth {
    fn from(known: bool) -> Self {
        if known { Self::True } else { Self::False }
    }
}

impl Not for Truth {
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

impl fmt::Display for Truth {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl fmt::Display for Lookup {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.query {
            Some(query) => write!(out, "{}({})", self.source, Quoted(query)),
            None => write!(out, "{}()", self.source),
        }
    }
}

/// A text between quotes.
pub(super) struct Quoted<'a>(pub(super) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let escaped = self.0.replace('\\', "\\\\").replace('"', "\\\"");
        write!(out, "\"{escaped}\"")
    }
}
