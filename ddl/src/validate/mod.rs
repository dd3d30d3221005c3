//! Validation of a single value: its type, length, choices and validator.
//!
//! `input` checks which inputs an action accepts.

pub mod duration;

mod dialect;
mod named;
mod regex;

use serde::{Serialize, Serializer};
use serde_json::Value;

use self::named::{NAMED_VALIDATORS, NamedValidator};
use crate::schema::{InputSchema, OutputSchema};
use crate::value_type::ValueType;

/// The requirement that a value violates. Never contains the value, which may be a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValueViolation {
    /// Not of the type, cannot be parsed as the type, or refused by a named validator. Holds what is required.
    #[error("must be {0}")]
    Requirement(&'static str),
    /// Exceeds the limit.
    #[error("must not be longer than {limit} characters and has {length}")]
    TooLong {
        /// The length in characters.
        length: u64,
        /// The limit in characters.
        limit: u64,
    },
    /// Not one of the choices.
    #[error("must be one of {}", .0.join(", "))]
    NotAChoice(Vec<String>),
    /// Does not match the regular expression.
    #[error("must match {0:?}")]
    Pattern(String),
}

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

    fn check_text(&self, text: &str) -> Result<(), ValueViolation> {
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

impl InputSchema {
    /// Checks that this input accepts `value`.
    pub fn check_value(&self, value: &Value) -> Result<(), ValueViolation> {
        self.value_type.check_type(value)?;
        let Some(text) = value.as_str() else {
            return Ok(());
        };
        check_max_length(self.max_length, text)?;
        if self.value_type == ValueType::List && !self.choices.iter().any(|choice| choice == text) {
            return Err(ValueViolation::NotAChoice(self.choices.clone()));
        }
        self.rule.as_ref().map_or(Ok(()), |rule| rule.check_text(text))
    }
}

impl OutputSchema {
    /// Checks that this output accepts `value`: a value of its type, its own default, or null for "not computed".
    pub fn check_value(&self, value: &Value) -> Result<(), ValueViolation> {
        if value.is_null() || self.default.as_ref() == Some(value) {
            return Ok(());
        }
        self.value_type.check_type(value)
    }
}

/// Checks the length in characters. A limit of 0 means no limit, as in `MCollective`.
fn check_max_length(limit: u64, text: &str) -> Result<(), ValueViolation> {
    let length = u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
    if limit == 0 || length <= limit {
        Ok(())
    } else {
        Err(ValueViolation::TooLong { length, limit })
    }
}
