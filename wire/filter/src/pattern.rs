//! Name patterns: an exact text, or a regular expression between slashes.

use std::fmt;

use regex::{Regex, RegexBuilder};

use super::error::{FaultContext as _, FilterError, FilterFault, Result, expected_at};

/// Longest pattern, fact name or value, in bytes.
pub const MAX_PATTERN_BYTES: usize = 1024;

/// Most memory that one compiled expression may take, in bytes.
const MAX_COMPILED_REGEX_BYTES: usize = 256 * 1024;

/// A pattern for a class, agent or identity.
///
/// An exact text is stored in lower case, because all three compare case-insensitively. It contains neither white space nor
/// control characters. A text that begins with a slash is a regular expression: `/^web/`, `/^web/i`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilterPattern {
    /// Equal, case-insensitively.
    Exact(String),
    /// Found anywhere in the name.
    Regex(FilterRegex),
}

/// A compiled regular expression and its source.
#[derive(Debug, Clone)]
pub struct FilterRegex {
    source: String,
    ignore_case: bool,
    regex: Regex,
}

impl FilterPattern {
    /// Parses a pattern; white space around it is ignored.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        let start = text.len() - text.trim_start().len();
        Self::parse_part(text.trim()).shifted_by(start).within_text(text)
    }

    /// Parses exactly `text`, without trimming.
    pub(super) fn parse_part(text: &str) -> Result<Self> {
        if text.is_empty() {
            return expected_at(0, "a name or a /regex/, not an empty string");
        }
        if text.starts_with('/') {
            return FilterRegex::parse_slashed(text).map(Self::Regex);
        }
        if let Some(at) = text.find(|c: char| c.is_whitespace() || c.is_control()) {
            return expected_at(at, "one name without spaces or control characters");
        }
        if let Some(at) = text.find(['*', '?', '(', ')', '<', '>', '#']) {
            return expected_at(at, "a name without wildcards (write a pattern as /^web/)");
        }
        let name = lower_case(text);
        if name.len() > MAX_PATTERN_BYTES {
            return expected_at(0, "a name of at most 1,024 bytes");
        }
        Ok(Self::Exact(name))
    }

    /// Parses a pattern for classes, which matches regardless of case.
    pub(super) fn parse_class(text: &str) -> Result<Self, FilterError> {
        let start = text.len() - text.trim_start().len();
        Self::parse_class_part(text.trim()).shifted_by(start).within_text(text)
    }

    /// Parses exactly `text` as a pattern for classes.
    pub(super) fn parse_class_part(text: &str) -> Result<Self> {
        Self::parse_part(text)?.ignoring_case()
    }

    /// The pattern as Choria matches classes: regardless of case, also as a regular expression.
    pub(super) fn ignoring_case(self) -> Result<Self> {
        Ok(match self {
            Self::Regex(regex) => Self::Regex(regex.ignoring_case()?),
            exact @ Self::Exact(_) => exact,
        })
    }

    /// The name, of an exact pattern.
    pub(super) fn exact_name(&self) -> Option<&str> {
        match self {
            Self::Exact(name) => Some(name),
            Self::Regex(_) => None,
        }
    }

    /// Length of the text in bytes.
    pub(super) fn text_bytes(&self) -> usize {
        match self {
            Self::Exact(name) => name.len(),
            Self::Regex(expression) => expression.source.len(),
        }
    }
}

impl fmt::Display for FilterPattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(name) => out.write_str(name),
            Self::Regex(expression) => expression.fmt(out),
        }
    }
}

impl FilterRegex {
    /// Compiles a regular expression within the limits.
    pub(super) fn compile_regex(source: &str, ignore_case: bool) -> Result<Self> {
        if source.is_empty() {
            return expected_at(0, "a regular expression that is not empty");
        }
        if source.len() > MAX_PATTERN_BYTES {
            return expected_at(0, "a regular expression of at most 1,024 bytes");
        }
        if let Some(at) = source.find(char::is_control) {
            return expected_at(at, "an escape such as \\t instead of a control character");
        }
        let regex = build_regex(source, ignore_case)?;
        Ok(Self { source: source.to_owned(), ignore_case, regex })
    }

    /// The expression as Choria matches facts and classes: regardless of case. It prints as written.
    pub(super) fn ignoring_case(self) -> Result<Self> {
        let regex = build_regex(&self.source, true)?;
        Ok(Self { regex, ..self })
    }

    /// Parses `/source/` or `/source/i`.
    pub(super) fn parse_slashed(text: &str) -> Result<Self> {
        let Some((source, ignore_case)) = split_slashed_regex(text) else {
            return expected_at(text.len(), "a closing / after the regular expression");
        };
        Self::compile_regex(source, ignore_case).shifted_by(1)
    }

    /// Whether the expression is found in `text`.
    pub fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// Whether the source has a letter in upper case that is no part of an escape, and no flag decides about case.
    pub(super) fn looks_case_sensitive(&self) -> bool {
        let mut escaped = false;
        let mut letters = self.source.chars().filter(|c| {
            let is_literal = !escaped;
            escaped = *c == '\\' && !escaped;
            is_literal
        });
        let has_flag = self.ignore_case || self.source.starts_with("(?-i)");
        !has_flag && letters.any(char::is_uppercase)
    }

    /// Whether the flag `i` is set.
    pub(super) fn ignores_case(&self) -> bool {
        self.ignore_case
    }

    /// The regular expression without slashes and flag.
    pub fn source(&self) -> &str {
        &self.source
    }
}

impl fmt::Display for FilterRegex {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flag = if self.ignore_case { "i" } else { "" };
        write!(out, "/{}/{flag}", self.source)
    }
}

impl PartialEq for FilterRegex {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source && self.ignore_case == other.ignore_case
    }
}

impl Eq for FilterRegex {}

fn build_regex(source: &str, ignore_case: bool) -> Result<Regex> {
    RegexBuilder::new(source)
        .case_insensitive(ignore_case)
        .size_limit(MAX_COMPILED_REGEX_BYTES)
        .dfa_size_limit(MAX_COMPILED_REGEX_BYTES)
        .build()
        .map_err(|error| FilterFault::invalid_regex(0, error))
}

/// The content of `/…/` or `/…/i`, and whether the flag is set. Only the outer slashes delimit.
pub(super) fn split_slashed_regex(text: &str) -> Option<(&str, bool)> {
    let body = text.strip_prefix('/')?;
    match body.strip_suffix('/') {
        Some(source) => Some((source, false)),
        None => body.strip_suffix("/i").map(|source| (source, true)),
    }
}

/// Lower case per character: the same folding that [`eval`](super::eval) compares with.
pub(super) fn lower_case(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::{FilterPattern, FilterRegex};

    #[test]
    fn names_are_lowercased_and_slashes_mark_regexes() {
        assert_eq!(FilterPattern::parse(" Mysql::Master ").unwrap().to_string(), "mysql::master");
        for text in ["/^web/", "/^WEB/i", "/a/b/", "/a//", "/a/i/", "/a/i/i", "/ /", r"/\//"] {
            let pattern = FilterPattern::parse(text).unwrap();
            assert!(matches!(pattern, FilterPattern::Regex(_)), "{text}");
            assert_eq!(pattern.to_string(), text);
        }
        let inner = FilterRegex::parse_slashed("/usr/lib/").unwrap();
        assert_eq!(inner.source(), "usr/lib");
        assert!(inner.is_match("/usr/lib/x") && !inner.is_match("usrlib"));
        assert!(FilterRegex::parse_slashed("/^WEB/i").unwrap().is_match("web1"));
    }

    #[test]
    fn invalid_patterns_are_refused_with_their_column() {
        for (text, column) in [
            ("", 1),
            ("  ", 3),
            ("/", 2),
            ("//", 2),
            ("//i", 2),
            ("/a", 3),
            ("/a/x", 5),
            (" é b", 3),
            ("a\u{1b}", 2),
            ("/a\u{1b}/", 3),
            ("/(/", 2),
            (r"/\w{500}/", 2),
            ("web*", 4),
            ("db?", 3),
            ("foo(bar", 4),
        ] {
            let error = FilterPattern::parse(text).unwrap_err();
            assert_eq!(error.column(), column, "{text:?}: {error}");
        }
    }

    #[test]
    fn pattern_length_is_limited() {
        assert!(FilterPattern::parse(&"a".repeat(1024)).is_ok());
        assert!(FilterPattern::parse(&"a".repeat(1025)).is_err());
        // The lower case can be longer: this letter has two bytes and its lower case has three.
        assert!(FilterPattern::parse(&"İ".repeat(400)).is_err());
        assert!(FilterPattern::parse(&format!("/{}/", "a".repeat(1024))).is_ok());
        assert!(FilterPattern::parse(&format!("/{}/", "a".repeat(1025))).is_err());
    }
}
