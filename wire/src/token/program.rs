//! Programs of the daemon that the organisation has approved. They are listed in the account token, so the operator signs the list, and a node upgrades to no other.
//!
//! The bytes are in [`PROGRAMS_BUCKET`](crate::stores::PROGRAMS_BUCKET), compressed with gzip.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::catalog::content::ContentAddress;

/// Most programs in an account token.
pub const MAX_PROGRAMS: usize = 16;
/// Largest program, in bytes.
pub const MAX_PROGRAM_BYTES: u64 = 512 * 1024 * 1024;
/// Longest name, in bytes.
pub const MAX_PROGRAM_NAME_BYTES: usize = 64;

/// A program of the daemon that nodes may run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovedProgram {
    /// What callers call it, usually its version: a [`ProgramName`] when it was added. One name has a program for each kind of machine.
    pub name: String,
    /// The kind of machine, as the Rust target names it: `x86_64` or `aarch64`.
    pub machine: String,
    /// Its size, in bytes.
    pub bytes: u64,
    /// SHA-256 of its bytes.
    pub sha256: ContentAddress,
    /// The address of its compressed bytes in the bucket.
    pub content: ContentAddress,
}

/// The name of a program: letters, digits, `.`, `_`, `+`, `~` and `-`, the first of them a letter or a digit.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ProgramName(String);

/// The text is not the name of a program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a name of a program; use 1 to {MAX_PROGRAM_NAME_BYTES} letters, digits and . _ + ~ -, the first of them a letter or a digit"
)]
pub struct ProgramNameError(String);

impl ProgramName {
    /// Checks a name.
    pub fn parse(text: &str) -> Result<Self, ProgramNameError> {
        let is_valid = (1..=MAX_PROGRAM_NAME_BYTES).contains(&text.len())
            && text.starts_with(|first: char| first.is_ascii_alphanumeric())
            && text.chars().all(|one| one.is_ascii_alphanumeric() || "._+~-".contains(one));
        if is_valid {
            Ok(Self(text.to_owned()))
        } else {
            Err(ProgramNameError(text.chars().take(MAX_PROGRAM_NAME_BYTES).collect()))
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ProgramName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl_text_form!(ProgramName, ProgramNameError, |value| value.0);

#[cfg(test)]
mod tests {
    use super::ProgramName;

    #[test]
    fn names_are_those_of_versions() {
        for name in ["0.2.0", "0.2.0~rc1", "1.0+acme-3", "v2", &"a".repeat(64)] {
            assert_eq!(ProgramName::parse(name).unwrap().as_str(), name);
        }
        for name in ["", "-1", ".", "../x", "a/b", "a b", "ä", &"a".repeat(65)] {
            assert!(ProgramName::parse(name).is_err(), "{name}");
        }
    }
}
