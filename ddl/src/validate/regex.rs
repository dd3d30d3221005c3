//! A regular expression as validator. Matches anywhere in the text unless the pattern anchors it.
//!
//! Matching time is linear in the text, and memory for the compiled pattern is limited, so a
//! DDL from elsewhere cannot stop a node.

use ::regex::{Regex, RegexBuilder};

use super::{Violation, dialect};

/// Bytes that one compiled pattern may take; `check` limits how many of them one DDL may have.
const COMPILED_BYTES: usize = 128 * 1024;

/// A compiled pattern with the text it came from.
#[derive(Clone)]
pub(crate) struct Pattern {
    text: String,
    regex: Regex,
}

/// Why a pattern did not compile.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct BadPattern(#[from] ::regex::Error);

impl Pattern {
    pub(super) fn new(text: &str) -> Result<Self, BadPattern> {
        let regex = RegexBuilder::new(&dialect::translated(text))
            .size_limit(COMPILED_BYTES)
            .dfa_size_limit(COMPILED_BYTES)
            .build()?;
        Ok(Self {
            text: text.to_owned(),
            regex,
        })
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn check(&self, text: &str) -> Result<(), Violation> {
        if self.regex.is_match(text) {
            Ok(())
        } else {
            Err(Violation::Pattern(self.text.clone()))
        }
    }
}
