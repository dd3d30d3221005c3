//! Dotted fact paths: `os.family`, `disks.0.size`, `labels."app.kubernetes.io/name"`.
//!
//! A segment is a map key or an array index. Single or double quotes group a segment; there are no escapes inside them, so a
//! key that holds both kinds of quotes cannot be addressed. This file parses paths;
//! [`NodeFacts::get_path`](super::NodeFacts::get_path) resolves them.

use std::fmt;

/// Longest path in bytes.
pub const MAX_FACT_PATH_BYTES: usize = 1024;

/// A valid path into facts, split into segments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactPath {
    text: Box<str>,
    segments: Vec<Box<str>>,
}

/// The text is not a valid fact path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot read fact name {text:?} at byte {offset}: expected {expected}")]
pub struct FactPathError {
    /// The text as given.
    pub text: String,
    /// Byte offset of the error, from 0.
    pub offset: usize,
    /// What was expected there.
    pub expected: &'static str,
}

impl FactPath {
    /// Parses a path. White space and the characters of filter operators (`= < > ! ~`) need quotes, and so do those of queries in other path
    /// languages (`disks.#.size`, `os*`, `disks[0]`): as a name, such a query would be a missing fact, which satisfies `!=`. Control characters
    /// are refused everywhere, so that a path can be printed inside a filter and parsed back.
    pub fn parse(text: &str) -> Result<Self, FactPathError> {
        if text.len() > MAX_FACT_PATH_BYTES {
            let text = text.chars().take(40).collect();
            let expected = "a fact name of at most 1,024 bytes";
            return Err(FactPathError { text, offset: MAX_FACT_PATH_BYTES, expected });
        }
        let segments =
            split_segments(text).map(|found| found.map(Box::from)).collect::<Result<_, _>>()?;
        Ok(Self { text: text.into(), segments })
    }

    /// The path as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The segments as a slice.
    pub(crate) fn segment_list(&self) -> &[Box<str>] {
        &self.segments
    }

    /// The segments, without quotes.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().map(AsRef::as_ref)
    }
}

impl fmt::Display for FactPath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

/// Splits a path lazily, without allocating. Ends after the first error.
pub(super) fn split_segments(text: &str) -> PathSegments<'_> {
    PathSegments { text, rest: Some(text) }
}

/// `key` as a path segment, quoted if necessary.
pub(crate) fn quote_segment_if_needed(key: &str) -> String {
    if !key.is_empty() && key.chars().all(|c| c != '.' && is_plain(c)) {
        key.to_owned()
    } else {
        quote_segment(key)
    }
}

/// `key` as a quoted path segment.
pub(super) fn quote_segment(key: &str) -> String {
    let quote = if key.contains('"') { '\'' } else { '"' };
    format!("{quote}{key}{quote}")
}

/// Whether a character is allowed in an unquoted segment.
fn is_plain(c: char) -> bool {
    !c.is_whitespace()
        && !c.is_control()
        && !matches!(c, '"' | '\'' | '=' | '<' | '>' | '!' | '~')
        && !is_query_char(c)
}

/// Whether a character belongs to a query in the path languages of gjson or `JSONPath`.
fn is_query_char(c: char) -> bool {
    "#*?|()[]{}\\".contains(c)
}

const NO_QUERY: &str = "a fact name without wildcards and queries (a list matches if one of its elements does; write disks.0.size for one of them, and quote a name that contains such a character)";

pub(super) struct PathSegments<'a> {
    text: &'a str,
    /// The unparsed rest; `None` after the end or an error.
    rest: Option<&'a str>,
}

impl<'a> PathSegments<'a> {
    fn path_error(&self, unread: &str, expected: &'static str) -> FactPathError {
        let offset = self.text.len() - unread.len();
        FactPathError { text: self.text.to_owned(), offset, expected }
    }

    /// The first segment of `rest`, and the remainder.
    fn parse_segment(&self, rest: &'a str) -> Result<(&'a str, &'a str), FactPathError> {
        for quote in ['"', '\''] {
            if let Some(body) = rest.strip_prefix(quote) {
                let (segment, after) = body
                    .split_once(quote)
                    .ok_or_else(|| self.path_error(rest, "a closing quote"))?;
                if segment.contains(char::is_control) {
                    return Err(self.path_error(body, "a name without control characters"));
                }
                return Ok((segment, after));
            }
        }
        let end = rest.find(|c| c == '.' || !is_plain(c)).unwrap_or(rest.len());
        match rest.split_at_checked(end) {
            Some((segment, after)) if !segment.is_empty() => Ok((segment, after)),
            _ if rest.starts_with(is_query_char) => Err(self.path_error(rest, NO_QUERY)),
            _ => Err(self.path_error(rest, "the name of a fact")),
        }
    }
}

impl<'a> Iterator for PathSegments<'a> {
    type Item = Result<&'a str, FactPathError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest.take()?;
        let (segment, after) = match self.parse_segment(rest) {
            Ok(found) => found,
            Err(error) => return Some(Err(error)),
        };
        if !after.is_empty() {
            let Some(next) = after.strip_prefix('.') else {
                if after.starts_with(is_query_char) {
                    return Some(Err(self.path_error(after, NO_QUERY)));
                }
                let expected = "a dot or the end of the name (quote a name with other characters)";
                return Some(Err(self.path_error(after, expected)));
            };
            self.rest = Some(next);
        }
        Some(Ok(segment))
    }
}

#[cfg(test)]
mod tests {
    use super::FactPath;

    fn split(text: &str) -> Vec<String> {
        FactPath::parse(text).unwrap().segments().map(str::to_owned).collect()
    }

    #[test]
    fn dots_separate_segments_and_quotes_protect_dots() {
        assert_eq!(split("os.release.full"), ["os", "release", "full"]);
        assert_eq!(split(r#"facts."a.b".c"#), ["facts", "a.b", "c"]);
        assert_eq!(split(r#"'say "hi"'.0"#), [r#"say "hi""#, "0"]);
        assert_eq!(split(r#""a = b""#), ["a = b"]);
        assert_eq!(split(r#"disks."*".'#'"#), ["disks", "*", "#"]);
    }

    #[test]
    fn invalid_paths_are_refused_with_their_offset() {
        for (text, offset) in [
            ("", 0),
            (".", 0),
            ("a.", 2),
            ("a..b", 2),
            ("a b", 1),
            ("a=b", 1),
            ("a.\"b", 2),
            ("\"a\"b", 3),
            ("a\u{1b}[", 1),
            ("\"\u{7}\"", 1),
            ("disks.#.size", 6),
            ("disks.#(size>1).name", 6),
            ("os*", 2),
            ("o?.family", 1),
            ("disks[0].size", 5),
            ("a|b", 1),
            ("foo(bar", 3),
            ("a\\.b", 1),
        ] {
            assert_eq!(FactPath::parse(text).unwrap_err().offset, offset, "{text:?}");
        }
        assert!(FactPath::parse(&"a".repeat(1024)).is_ok());
        assert!(FactPath::parse(&"a".repeat(1025)).is_err());
    }
}
