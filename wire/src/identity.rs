//! Identities of nodes and callers, and the plain names in subjects.
//!
//! The grammar is strict and each name has one spelling, because a name becomes part of a subject, a file name, an `ssh`
//! argument and an audit log line. Parsing does not check that the name exists.

use std::cmp::Ordering;

use muster_base::compare_natural;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits;

/// The name of a node or a caller: labels of `a-z 0-9 - _` joined by dots, as in a DNS name.
///
/// Upper case is folded to lower case when it is parsed, and a trailing dot is dropped; a label neither begins nor ends with
/// a hyphen. So `DB1.Acme.net.` and `db1.acme.net` are one identity.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct Identity(String);

/// Parse errors of names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The text is empty.
    #[error("the name is empty")]
    Empty,
    /// The text is longer than the limit.
    #[error("the name that begins with `{start}` has {length} bytes; at most {limit} are allowed")]
    TooLong {
        /// The first characters of the text.
        start: String,
        /// Its length in bytes.
        length: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// A character outside the grammar.
    #[error("`{name}` contains {character:?}; names consist of a-z, 0-9, - and _{}", if *.dots { ", joined by dots" } else { "" })]
    Character {
        /// The whole text.
        name: String,
        /// The first character outside the grammar.
        character: char,
        /// Whether this kind of name allows dots.
        dots: bool,
    },
    /// A label that is empty, too long, or begins or ends with a hyphen.
    #[error(
        "`{name}` has the label `{label}`; a label has 1 to 63 characters and does not begin or end with a hyphen"
    )]
    Label {
        /// The whole text.
        name: String,
        /// The invalid label.
        label: String,
    },
}

impl Identity {
    /// Parses and normalises an identity.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let trimmed = text.strip_suffix('.').unwrap_or(text);
        check_length(trimmed, limits::MAX_IDENTITY_BYTES)?;
        check_characters(trimmed, true)?;
        for label in trimmed.split('.') {
            check_label(trimmed, label)?;
        }
        Ok(Self(trimmed.to_ascii_lowercase()))
    }

    /// The normalised text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The name of a collective, an agent or an action: one subject token of `a-z 0-9 - _`, beginning with a letter.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct SubjectName(String);

impl SubjectName {
    /// Parses a name. Upper case is folded.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        check_length(text, limits::MAX_NAME_BYTES)?;
        check_characters(text, false)?;
        check_label(text, text)?;
        match text.chars().next() {
            Some(first) if first.is_ascii_alphabetic() => Ok(Self(text.to_ascii_lowercase())),
            Some(character) => {
                Err(NameError::Character { name: text.to_owned(), character, dots: false })
            }
            None => Err(NameError::Empty),
        }
    }

    /// The normalised text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Numbers in names are compared by value: `db2` precedes `db10`.
impl Ord for Identity {
    fn cmp(&self, other: &Self) -> Ordering {
        compare_natural(&self.0, &other.0)
    }
}

impl PartialOrd for Identity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn check_length(text: &str, limit: usize) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    if text.len() > limit {
        let start = text.chars().take(24).collect();
        return Err(NameError::TooLong { start, length: text.len(), limit });
    }
    Ok(())
}

fn check_characters(text: &str, dots: bool) -> Result<(), NameError> {
    let is_allowed =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_') || (dots && c == '.');
    match text.chars().find(|c| !is_allowed(*c)) {
        Some(character) => Err(NameError::Character { name: text.to_owned(), character, dots }),
        None => Ok(()),
    }
}

fn check_label(name: &str, label: &str) -> Result<(), NameError> {
    let is_invalid = label.is_empty()
        || label.len() > limits::MAX_LABEL_BYTES
        || label.starts_with('-')
        || label.ends_with('-');
    if is_invalid {
        return Err(NameError::Label { name: name.to_owned(), label: label.to_owned() });
    }
    Ok(())
}

impl_text_newtype!(Identity, NameError);
impl_text_newtype!(SubjectName, NameError);
