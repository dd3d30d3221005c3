//! What is wrong with a filter, where, and what would have been right.

use std::borrow::Cow;

/// Longest part of an offending text that an error repeats, in characters.
const MAX_QUOTED_CHARS: usize = 200;

/// A filter that cannot be used. The regex engine's own words, if any, are the source.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("cannot use filter {text:?}: expected {expected} at column {column}")]
pub struct FilterError {
    text: String,
    column: usize,
    expected: Cow<'static, str>,
    #[source]
    source: Option<Box<regex::Error>>,
}

impl FilterError {
    /// The offending text as given, cut to 200 characters.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Where in the text reading stopped, in characters from 1.
    pub fn column(&self) -> usize {
        self.column
    }

    /// What would have been right there, in plain words.
    pub fn expected(&self) -> &str {
        &self.expected
    }
}

/// A fault found while reading, before it is known which text the reader's part belongs to.
#[derive(Debug)]
pub(super) struct FilterFault {
    /// Bytes from the start of the part that was read.
    at: usize,
    expected: Cow<'static, str>,
    source: Option<Box<regex::Error>>,
}

impl FilterFault {
    pub(super) fn new(at: usize, expected: impl Into<Cow<'static, str>>) -> Self {
        Self {
            at,
            expected: expected.into(),
            source: None,
        }
    }

    pub(super) fn invalid_regex(at: usize, source: regex::Error) -> Self {
        let expected = match source {
            regex::Error::CompiledTooBig(_) => "a smaller regular expression",
            _ => "a valid regular expression",
        };
        Self {
            at,
            expected: expected.into(),
            source: Some(Box::new(source)),
        }
    }

    /// The same fault, `bytes` further on in a larger text.
    pub(super) fn shifted_by(mut self, bytes: usize) -> Self {
        self.at += bytes;
        self
    }

    /// What would have been right.
    pub(super) fn into_expected(self) -> Cow<'static, str> {
        self.expected
    }

    /// The error to show, given the whole text.
    pub(super) fn into_filter_error(self, text: &str) -> FilterError {
        let column = 1 + text
            .char_indices()
            .take_while(|(at, _)| *at < self.at)
            .count();
        FilterError {
            text: text.chars().take(MAX_QUOTED_CHARS).collect(),
            column,
            expected: self.expected,
            source: self.source,
        }
    }
}
