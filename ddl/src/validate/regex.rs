//! A regular expression as validator. Matches anywhere in the text unless the pattern anchors it.
//!
//! Matching time is linear in the text, and memory for the compiled pattern is limited, so a
//! DDL from elsewhere cannot stop a node.

use ::regex::{Regex, RegexBuilder};

use super::{ValueViolation, dialect};

/// Bytes that one compiled pattern may take; `check` limits how many of them one DDL may have.
const MAX_COMPILED_REGEX_BYTES: usize = 128 * 1024;

/// A compiled pattern with the text it came from.
#[derive(Clone)]
pub(crate) struct ValidationPattern {
    text: String,
    regex: Regex,
}

/// Why a pattern did not compile.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct InvalidPattern(#[from] ::regex::Error);

impl ValidationPattern {
    pub(super) fn new(text: &str) -> Result<Self, InvalidPattern> {
        let regex = RegexBuilder::new(&dialect::translate_pattern(text))
            .size_limit(MAX_COMPILED_REGEX_BYTES)
            .dfa_size_limit(MAX_COMPILED_REGEX_BYTES)
            .build()?;
        Ok(Self {
            text: text.to_owned(),
            regex,
        })
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
