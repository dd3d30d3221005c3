//! Validation of a single value: its type, length, choices and validator.
//!
//! `input` checks which inputs an action accepts.

use serde_json::Value;

use crate::schema::{InputSchema, OutputSchema};
use crate::value_type::ValueType;
use crate::violation::ValueViolation;

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
