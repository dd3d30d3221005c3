//! Fact terms: name, operator, value. This file builds them from parts; `parse` reads them from text.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::error::{FaultContext as _, FilterError, FilterFault, Result, expected_at};
use super::number::NumericValue;
use super::pattern::{FilterRegex, MAX_PATTERN_BYTES};
use crate::state::FactPath;

/// The comparison operator of a fact term.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FactOperator {
    /// Equal: numbers by value, texts case-insensitively.
    #[serde(rename = "==")]
    Equal,
    /// The negation of `==`; true for a missing fact.
    #[serde(rename = "!=")]
    NotEqual,
    /// Matches a regular expression.
    #[serde(rename = "=~")]
    Match,
    /// The negation of `=~`; true for a missing fact.
    #[serde(rename = "!~")]
    NotMatch,
    /// Less or equal.
    #[serde(rename = "<=")]
    AtMost,
    /// Greater or equal.
    #[serde(rename = ">=")]
    AtLeast,
    /// Less.
    #[serde(rename = "<")]
    Less,
    /// Greater.
    #[serde(rename = ">")]
    Greater,
}

impl FactOperator {
    /// The operator's spelling in filters and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Match => "=~",
            Self::NotMatch => "!~",
            Self::AtMost => "<=",
            Self::AtLeast => ">=",
            Self::Less => "<",
            Self::Greater => ">",
        }
    }

    pub(super) fn takes_regex(self) -> bool {
        matches!(self, Self::Match | Self::NotMatch)
    }

    /// The operator for a regular expression: equality becomes a match.
    pub(super) fn with_regex(self) -> Self {
        match self {
            Self::Equal => Self::Match,
            Self::NotEqual => Self::NotMatch,
            other => other,
        }
    }

    pub(super) fn is_negation(self) -> bool {
        matches!(self, Self::NotEqual | Self::NotMatch)
    }
}

impl fmt::Display for FactOperator {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// A condition on a fact. `Display` prints what [`FactTerm::parse`] reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactTerm {
    pub(super) path: FactPath,
    pub(super) operator: FactOperator,
    pub(super) operand: FactOperand,
}

/// The right side of a comparison: a regular expression exactly if the operator takes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FactOperand {
    Literal(LiteralOperand),
    Regex(FilterRegex),
}

/// A literal value, and its numeric value if it parses as a number.
#[derive(Debug, Clone)]
pub(super) struct LiteralOperand {
    pub(super) text: String,
    pub(super) number: Option<NumericValue>,
}

impl FactTerm {
    /// Builds a term from its parts, as in JSON: for `=~` and `!~` the value is a regular expression with its
    /// slashes (`/^web/i`), for all others it is literal.
    pub fn new(fact: &str, operator: FactOperator, value: &str) -> Result<Self, FilterError> {
        let path = read_path(fact).within_text(fact)?;
        let operand = if operator.takes_regex() {
            if value.starts_with('/') {
                FilterRegex::parse_slashed(value)
                    .and_then(FilterRegex::ignoring_case)
                    .map(FactOperand::Regex)
            } else {
                expected_at(0, "a regular expression between slashes")
            }
        } else {
            LiteralOperand::parse_part(value).map(FactOperand::Literal)
        };
        let operand = operand.within_text(value)?;
        Ok(Self { path, operator, operand })
    }

    /// The fact's dotted path.
    pub fn fact_path(&self) -> &FactPath {
        &self.path
    }

    /// The operator.
    pub fn operator(&self) -> FactOperator {
        self.operator
    }

    /// The value, in the form that [`FactTerm::new`] takes.
    pub fn value_text(&self) -> String {
        match &self.operand {
            FactOperand::Literal(literal) => literal.text.clone(),
            FactOperand::Regex(expression) => expression.to_string(),
        }
    }

    /// The regular expression, of a match.
    pub(super) fn regex(&self) -> Option<&FilterRegex> {
        match &self.operand {
            FactOperand::Regex(regex) => Some(regex),
            FactOperand::Literal(_) => None,
        }
    }

    /// Length of name and value in bytes.
    pub(super) fn text_bytes(&self) -> usize {
        let value = match &self.operand {
            FactOperand::Literal(literal) => literal.text.len(),
            FactOperand::Regex(expression) => expression.source().len(),
        };
        self.path.as_str().len() + value
    }
}

impl LiteralOperand {
    pub(super) fn parse_part(text: &str) -> Result<Self> {
        if text.is_empty() {
            return expected_at(
                0,
                "a value that is not empty (use =~/^$/ to match an empty string)",
            );
        }
        if text.len() > MAX_PATTERN_BYTES {
            return expected_at(0, "a value of at most 1,024 bytes");
        }
        if let Some(at) = text.find(char::is_control) {
            return expected_at(at, "a value without control characters");
        }
        Ok(Self { text: text.to_owned(), number: NumericValue::parse(text) })
    }

    /// Parses a value without quotes.
    pub(super) fn parse_unquoted(text: &str) -> Result<Self> {
        if is_nil(text) {
            let expected = format!(
                "a value (`{text}` would be a text; write =/^/ for nodes that have the fact, !~/^/ for all others, or the text in quotes)"
            );
            return expected_at(0, expected);
        }
        Self::parse_part(text)
    }

    /// Whether the value parses back as itself without quotes.
    fn is_plain(&self) -> bool {
        let is_plain_char = |c: char| c.is_alphanumeric() || "._-:/@+%,".contains(c);
        !self.text.starts_with('/') && self.text.chars().all(is_plain_char) && !is_nil(&self.text)
    }
}

/// Whether a word means "no value" in other languages. As a text it equals nothing, so that `!=` would be true for every node.
pub(super) fn is_nil(word: &str) -> bool {
    ["nil", "null"].iter().any(|nil| nil.eq_ignore_ascii_case(word))
}

/// The truth value that a text stands for, where a boolean fact or output is compared: the words that Choria accepts, and `true` and `false` in any
/// case.
pub fn parse_boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" => Some(true),
        "0" | "f" | "F" => Some(false),
        _ if text.eq_ignore_ascii_case("true") => Some(true),
        _ if text.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    }
}

pub(super) fn read_path(text: &str) -> Result<FactPath> {
    FactPath::parse(text).map_err(|error| FilterFault::new(error.offset, error.expected))
}

impl PartialEq for LiteralOperand {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for LiteralOperand {}

impl fmt::Display for LiteralOperand {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_plain() {
            return out.write_str(&self.text);
        }
        write!(out, "\"{}\"", self.text.replace('\\', "\\\\").replace('"', "\\\""))
    }
}

impl fmt::Display for FactTerm {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}{}", self.path, self.operator)?;
        match &self.operand {
            FactOperand::Literal(literal) => literal.fmt(out),
            FactOperand::Regex(expression) => expression.fmt(out),
        }
    }
}
