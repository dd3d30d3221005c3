//! The validators of inputs: regular expressions and named ones. `check_value` applies them.

pub mod duration;

mod dialect;
mod named;
mod regex;

use serde::{Serialize, Serializer};

use self::named::{NAMED_VALIDATORS, NamedValidator};
use crate::violation::ValueViolation;

/// The compiled `validation` of an input.
#[derive(Debug, Clone)]
pub(crate) enum ValidationRule {
    Named(&'static NamedValidator),
    Pattern(regex::ValidationPattern),
    /// The name of a validator that does not exist here. Accepts every value.
    Unknown(String),
}

impl ValidationRule {
    /// A bare lower-case word is a validator's name, all other text is a regular expression.
    pub(crate) fn new(text: &str) -> Result<Self, ::regex::Error> {
        if let Some(named) = NAMED_VALIDATORS.iter().find(|(name, ..)| *name == text) {
            return Ok(Self::Named(named));
        }
        let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let is_name =
            text.starts_with(|c: char| c.is_ascii_lowercase()) && text.chars().all(is_word);
        if is_name {
            return Ok(Self::Unknown(text.to_owned()));
        }
        regex::ValidationPattern::new(text).map(Self::Pattern)
    }

    pub(crate) fn rule_text(&self) -> &str {
        match self {
            Self::Named((name, ..)) => name,
            Self::Pattern(pattern) => pattern.pattern_text(),
            Self::Unknown(name) => name,
        }
    }

    pub(crate) fn check_text(&self, text: &str) -> Result<(), ValueViolation> {
        match self {
            Self::Named((_, accepts, requirement)) => {
                accepts(text).then_some(()).ok_or(ValueViolation::Requirement(requirement))
            }
            Self::Pattern(pattern) => pattern.check_text(text),
            Self::Unknown(_) => Ok(()),
        }
    }
}

impl Serialize for ValidationRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.rule_text())
    }
}

/// The names that `validation` accepts, for error messages and documentation.
pub fn validator_names() -> impl Iterator<Item = &'static str> {
    NAMED_VALIDATORS.iter().map(|(name, ..)| *name)
}
