//! One condition on one fact: name, operator, value. Built from its parts, here; from text, in `parse`.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::error::{FilterError, FilterFault};
use super::number::NumericValue;
use super::pattern::{FilterRegex, MAX_PATTERN_BYTES};
use crate::state::FactPath;

/// How a fact is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FactOperator {
    /// Equal: numbers by value, texts without regard to case.
    #[serde(rename = "==")]
    Equal,
    /// The negation of `==`; true where the fact is missing.
    #[serde(rename = "!=")]
    NotEqual,
    /// A regular expression is found.
    #[serde(rename = "=~")]
    Match,
    /// The negation of `=~`; true where the fact is missing.
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
    /// The operator as written, in filters and in JSON.
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

    pub(super) fn is_negation(self) -> bool {
        matches!(self, Self::NotEqual | Self::NotMatch)
    }
}

impl fmt::Display for FactOperator {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// A condition on a fact. Prints as [`FactTerm::parse`] reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactTerm {
    pub(super) path: FactPath,
    pub(super) operator: FactOperator,
    pub(super) operand: FactOperand,
}

/// What the fact is compared with: an expression exactly when the operator takes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FactOperand {
    Literal(LiteralOperand),
    Regex(FilterRegex),
}

/// A value, and the number that it looks like.
#[derive(Debug, Clone)]
pub(super) struct LiteralOperand {
    pub(super) text: String,
    pub(super) number: Option<NumericValue>,
}

impl FactTerm {
    /// A term of its parts, as JSON carries them: for `=~` and `!~` the value is an expression with its
    /// slashes (`/^web/i`), for all others it is taken literally.
    pub fn new(fact: &str, operator: FactOperator, value: &str) -> Result<Self, FilterError> {
        let path = read_path(fact).map_err(|fault| fault.into_filter_error(fact))?;
        let operand = if operator.takes_regex() {
            if value.starts_with('/') {
                FilterRegex::parse_slashed(value).map(FactOperand::Regex)
            } else {
                Err(FilterFault::new(0, "a regular expression between slashes"))
            }
        } else {
            LiteralOperand::parse_part(value).map(FactOperand::Literal)
        };
        let operand = operand.map_err(|fault| fault.into_filter_error(value))?;
        Ok(Self {
            path,
            operator,
            operand,
        })
    }

    /// The fact's dotted path.
    pub fn fact_path(&self) -> &FactPath {
        &self.path
    }

    /// How it is compared.
    pub fn operator(&self) -> FactOperator {
        self.operator
    }

    /// What it is compared with, in the form that [`FactTerm::new`] takes.
    pub fn value_text(&self) -> String {
        match &self.operand {
            FactOperand::Literal(literal) => literal.text.clone(),
            FactOperand::Regex(expression) => expression.to_string(),
        }
    }

    /// Bytes of name and value.
    pub(super) fn text_bytes(&self) -> usize {
        let value = match &self.operand {
            FactOperand::Literal(literal) => literal.text.len(),
            FactOperand::Regex(expression) => expression.source().len(),
        };
        self.path.as_str().len() + value
    }
}

impl LiteralOperand {
    pub(super) fn parse_part(text: &str) -> Result<Self, FilterFault> {
        if text.is_empty() {
            return Err(FilterFault::new(
                0,
                "a value that is not empty (=~/^$/ finds an empty text)",
            ));
        }
        if text.len() > MAX_PATTERN_BYTES {
            return Err(FilterFault::new(0, "a value of at most 1,024 bytes"));
        }
        if let Some(at) = text.find(char::is_control) {
            return Err(FilterFault::new(at, "a value without control characters"));
        }
        Ok(Self {
            text: text.to_owned(),
            number: NumericValue::parse(text),
        })
    }

    /// Whether the value reads back as itself without quotes.
    fn is_plain(&self) -> bool {
        let plain = |c: char| c.is_alphanumeric() || "._-:/@+%,".contains(c);
        !self.text.starts_with('/') && self.text.chars().all(plain)
    }
}

pub(super) fn read_path(text: &str) -> Result<FactPath, FilterFault> {
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
        write!(
            out,
            "\"{}\"",
            self.text.replace('\\', "\\\\").replace('"', "\\\"")
        )
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
