//! Filter errors: the text, the position, and what was expected there.

use std::borrow::Cow;

/// Longest part of an invalid text that an error repeats, in characters.
const MAX_QUOTED_CHARS: usize = 200;

/// An invalid filter. A regex engine error, if any, is the source.
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
    /// The invalid text, cut to 200 characters.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The error position in the text, in characters from 1.
    pub fn column(&self) -> usize {
        self.column
    }

    /// What was expected at that position.
    pub fn expected(&self) -> &str {
        &self.expected
    }
}

/// A result of parsing a part of a text.
pub(super) type Result<T, E = FilterFault> = std::result::Result<T, E>;

/// A parse error relative to the parsed part, before the whole text is known.
#[derive(Debug)]
pub(super) struct FilterFault {
    /// Byte offset from the start of the parsed part.
    at: usize,
    expected: Cow<'static, str>,
    source: Option<Box<regex::Error>>,
}

impl FilterFault {
    pub(super) fn new(at: usize, expected: impl Into<Cow<'static, str>>) -> Self {
        Self { at, expected: expected.into(), source: None }
    }

    pub(super) fn invalid_regex(at: usize, source: regex::Error) -> Self {
        let expected = match source {
            regex::Error::CompiledTooBig(_) => "a smaller regular expression",
            _ => "a valid regular expression",
        };
        Self { at, expected: expected.into(), source: Some(Box::new(source)) }
    }

    /// What was expected.
    pub(super) fn into_expected(self) -> Cow<'static, str> {
        self.expected
    }

    /// Converts to the displayed error, given the whole text.
    pub(super) fn into_filter_error(self, text: &str) -> FilterError {
        let column = 1 + text.char_indices().take_while(|(at, _)| *at < self.at).count();
        FilterError {
            text: text.chars().take(MAX_QUOTED_CHARS).collect(),
            column,
            expected: self.expected,
            source: self.source,
        }
    }
}

/// The error that `expected` was not found at `at`.
pub(super) fn expected_at<T>(at: usize, expected: impl Into<Cow<'static, str>>) -> Result<T> {
    Err(FilterFault::new(at, expected))
}

/// Conversions of the error of a parsed part.
pub(super) trait FaultContext<T> {
    /// Moves the error by `bytes`, for a part of a larger text.
    fn shifted_by(self, bytes: usize) -> Result<T>;
    /// Converts to the displayed error, given the whole text.
    fn within_text(self, text: &str) -> Result<T, FilterError>;
}

impl<T> FaultContext<T> for Result<T> {
    fn shifted_by(self, bytes: usize) -> Self {
        self.map_err(|fault| FilterFault { at: fault.at + bytes, ..fault })
    }

    fn within_text(self, text: &str) -> Result<T, FilterError> {
        self.map_err(|fault| fault.into_filter_error(text))
    }
}
