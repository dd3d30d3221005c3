//! Validation by regular expression. Matches anywhere in the text unless the pattern is anchored.
//!
//! Matching time is linear in the text, and the memory of a compiled pattern is limited, so a third-party DDL cannot exhaust
//! a node.

use ::regex::{Regex, RegexBuilder};

use super::dialect;
use crate::violation::ValueViolation;

/// Memory limit of one compiled pattern, in bytes; `check` limits their number per DDL.
const MAX_COMPILED_REGEX_BYTES: usize = 128 * 1024;

/// A compiled pattern with its source text.
#[derive(Debug, Clone)]
pub(crate) struct ValidationPattern {
    text: String,
    regex: Regex,
}

impl ValidationPattern {
    pub(super) fn new(text: &str) -> Result<Self, ::regex::Error> {
        let regex = RegexBuilder::new(&dialect::translate_pattern(text))
            .size_limit(MAX_COMPILED_REGEX_BYTES)
            .dfa_size_limit(MAX_COMPILED_REGEX_BYTES)
            .build()?;
        Ok(Self { text: text.to_owned(), regex })
    }

    pub(super) fn pattern_text(&self) -> &str {
        &self.text
    }

    pub(super) fn check_text(&self, text: &str) -> Result<(), ValueViolation> {
        if self.regex.is_match(text) {
            Ok(())
        } else {
            Err(ValueViolation::Pattern(self.text.clone()))
        }
    }
}
