//! Name patterns: which names a bootstrap token permits.
//!
//! ```text
//! web-*.example.com     web-1.example.com, web-a7.example.com; not web-1.dmz.example.com
//! **.lab.example.com    a.lab.example.com, a.b.lab.example.com; not lab.example.com
//! ```
//!
//! A `*` matches any number of characters of one label, including none, and never a dot. A label `**` matches one or more whole
//! labels. All other characters match themselves. Upper case is folded as in names.

use serde::{Deserialize, Serialize};

use crate::identity::Identity;
use crate::limits;

/// A pattern of names.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NamePattern(String);

/// Parse errors of name patterns.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NamePatternError {
    /// Empty, or longer than a name.
    #[error(
        "the name pattern has {0} bytes; 1 to {limit} are allowed",
        limit = limits::MAX_IDENTITY_BYTES
    )]
    Length(usize),
    /// A character outside the grammar.
    #[error("`{pattern}` contains {character:?}; patterns consist of a-z, 0-9, -, _, * and dots")]
    Character {
        /// The whole text.
        pattern: String,
        /// The first invalid character.
        character: char,
    },
    /// An empty or too long label, or `**` with other characters.
    #[error(
        "`{pattern}` has the label `{part}`; a label has 1 to {} characters, and `**` must be a whole label",
        limits::MAX_LABEL_BYTES
    )]
    Part {
        /// The whole text.
        pattern: String,
        /// The label between two dots.
        part: String,
    },
}

/// Matches one or more labels.
const MULTI_LABEL_WILDCARD: &str = "**";

impl NamePattern {
    /// Parses a pattern.
    pub fn parse(text: &str) -> Result<Self, NamePatternError> {
        if text.is_empty() || text.len() > limits::MAX_IDENTITY_BYTES {
            return Err(NamePatternError::Length(text.len()));
        }
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '*' | '.');
        if let Some(character) = text.chars().find(|c| !is_allowed(*c)) {
            let pattern = text.to_owned();
            return Err(NamePatternError::Character { pattern, character });
        }
        let is_invalid = |part: &&str| {
            part.is_empty()
                || part.len() > limits::MAX_LABEL_BYTES
                || (part.contains(MULTI_LABEL_WILDCARD) && *part != MULTI_LABEL_WILDCARD)
        };
        match text.split('.').find(is_invalid) {
            Some(part) => {
                Err(NamePatternError::Part { pattern: text.to_owned(), part: part.to_owned() })
            }
            None => Ok(Self(text.to_ascii_lowercase())),
        }
    }

    /// The normalised pattern.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the pattern matches this name. The run time is at most proportional to the product of both lengths.
    pub fn matches(&self, name: &Identity) -> bool {
        let pattern: Vec<&str> = self.0.split('.').collect();
        let parts: Vec<&str> = name.as_str().split('.').collect();
        let is_wildcard = |part: &&str| *part == MULTI_LABEL_WILDCARD;
        matches_wildcards(&pattern, &parts, is_wildcard, 1, |label, part| {
            matches_label(label, part)
        })
    }
}

/// Whether one label of a name matches one label of a pattern.
fn matches_label(pattern: &str, part: &str) -> bool {
    let (pattern, part) = (pattern.as_bytes(), part.as_bytes());
    matches_wildcards(pattern, part, |byte| *byte == b'*', 0, |pattern, byte| pattern == byte)
}

/// Matches items against a pattern in which wildcards match `min_items` items or more. On a mismatch, only the last wildcard takes
/// one more item: earlier wildcards matched the fewest items, so no other assignment of theirs can help.
fn matches_wildcards<P, T>(
    pattern: &[P],
    items: &[T],
    is_wildcard: impl Fn(&P) -> bool,
    min_items: usize,
    is_match: impl Fn(&P, &T) -> bool,
) -> bool {
    let (mut pattern_index, mut item_index) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        let has_advanced = match pattern.get(pattern_index) {
            Some(element) if is_wildcard(element) => {
                star = Some((pattern_index, item_index + min_items));
                (pattern_index, item_index) = (pattern_index + 1, item_index + min_items);
                item_index <= items.len()
            }
            Some(element)
                if items.get(item_index).is_some_and(|candidate| is_match(element, candidate)) =>
            {
                (pattern_index, item_index) = (pattern_index + 1, item_index + 1);
                true
            }
            None if item_index == items.len() => return true,
            _ => false,
        };
        if has_advanced {
            continue;
        }
        match star {
            Some((from, consumed)) if consumed < items.len() => {
                star = Some((from, consumed + 1));
                (pattern_index, item_index) = (from + 1, consumed + 1);
            }
            _ => return false,
        }
    }
}

impl_text_newtype!(NamePattern, NamePatternError);
