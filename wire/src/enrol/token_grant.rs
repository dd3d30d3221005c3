//! What a bootstrap token allows, as it stands in the token's tags: names, uses, and the facts that newcomers are given.
//!
//! Its end and its revocation are the token's own, as everybody's.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use super::names::{NamePattern, NamePatternError};
use crate::identity::Identity;
use crate::limits;

/// What a bootstrap token allows whoever has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TokenGrant {
    /// The names that may be asked for; none allows none.
    pub names: Vec<NamePattern>,
    /// How many machines may come in; nothing for any number.
    pub uses: Option<u32>,
    /// What a node that came in so says of itself from then on.
    pub facts: BTreeMap<String, String>,
}

/// Why a token is no ticket, or cannot be made one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenGrantError {
    /// A name.
    #[error(transparent)]
    Name(#[from] NamePatternError),
    /// It lets nobody in.
    #[error("it names no machines, and so lets none in")]
    Nobody,
    /// Too many of something.
    #[error("it has {found} {what}, more than {limit}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many there may be.
        limit: usize,
    },
    /// A count that is none.
    #[error("`{0}` is no number of uses; it is 1 or more")]
    Uses(String),
    /// A fact.
    #[error(
        "`{0}` is no fact; write NAME=VALUE, with letters, digits, `_`, `-` and `.` in the name and up to {limit} bytes in the value",
        limit = limits::MAX_TOKEN_GRANT_TEXT_BYTES
    )]
    Fact(String),
    /// Something that a newer organisation says, which may narrow what is allowed.
    #[error("it says `{0}`, which is not understood here")]
    Unknown(String),
}

/// One fact, as somebody writes it: `NAME=VALUE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenGrantFact {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

impl TokenGrant {
    /// Whether a machine of this name may come in.
    pub fn allows_name(&self, name: &Identity) -> bool {
        self.names.iter().any(|pattern| pattern.matches(name))
    }

    /// The tags for a token.
    pub fn to_tags(&self) -> Result<Vec<String>, TokenGrantError> {
        self.check_limits()?;
        let names = self.names.iter().map(|name| format!("name:{name}"));
        let uses = self.uses.iter().map(|uses| format!("uses:{uses}"));
        let facts = self
            .facts
            .iter()
            .map(|(name, value)| format!("fact:{name}={value}"));
        Ok(names.chain(uses).chain(facts).collect())
    }

    /// Reads the tags of a token. What is not understood is refused: it may be what narrows it.
    pub fn from_tags(tags: &[String]) -> Result<Self, TokenGrantError> {
        let mut ticket = Self::default();
        for tag in tags {
            let unknown = || TokenGrantError::Unknown(truncate_text(tag));
            match tag.split_once(':').ok_or_else(unknown)? {
                ("name", name) => ticket.names.push(NamePattern::parse(name)?),
                ("uses", uses) if ticket.uses.is_none() => {
                    ticket.uses = Some(parse_use_count(uses)?);
                }
                ("fact", fact) => {
                    let TokenGrantFact { name, value } = fact.parse()?;
                    ticket.facts.insert(name, value);
                }
                _ => return Err(unknown()),
            }
        }
        ticket.check_limits()?;
        Ok(ticket)
    }

    fn check_limits(&self) -> Result<(), TokenGrantError> {
        if self.names.is_empty() {
            return Err(TokenGrantError::Nobody);
        }
        for (what, found, limit) in [
            (
                "patterns of names",
                self.names.len(),
                limits::MAX_TOKEN_GRANT_NAMES,
            ),
            ("facts", self.facts.len(), limits::MAX_TOKEN_GRANT_FACTS),
        ] {
            if found > limit {
                return Err(TokenGrantError::TooMany { what, found, limit });
            }
        }
        Ok(())
    }
}

impl FromStr for TokenGrantFact {
    type Err = TokenGrantError;
    fn from_str(text: &str) -> Result<Self, TokenGrantError> {
        let wrong = || TokenGrantError::Fact(truncate_text(text));
        let (name, value) = text.split_once('=').ok_or_else(wrong)?;
        let belongs = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let named =
            !name.is_empty() && name.len() <= limits::MAX_NAME_BYTES && name.chars().all(belongs);
        if !named
            || value.len() > limits::MAX_TOKEN_GRANT_TEXT_BYTES
            || value.chars().any(char::is_control)
        {
            return Err(wrong());
        }
        Ok(Self {
            name: name.to_owned(),
            value: value.to_owned(),
        })
    }
}

impl fmt::Display for TokenGrantFact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.value)
    }
}

fn parse_use_count(text: &str) -> Result<u32, TokenGrantError> {
    match text.parse() {
        Ok(0) | Err(_) => Err(TokenGrantError::Uses(truncate_text(text))),
        Ok(uses) => Ok(uses),
    }
}

fn truncate_text(text: &str) -> String {
    text.chars().take(80).collect()
}
