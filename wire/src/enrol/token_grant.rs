//! The grant of a bootstrap token, from its tags: names, use limit, and facts for enrolled nodes.
//!
//! Expiry and revocation are those of the token itself.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use super::names::{NamePattern, NamePatternError};
use crate::identity::Identity;
use crate::limits;

/// The grant of a bootstrap token.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TokenGrant {
    /// Permitted names; an empty list permits none.
    pub names: Vec<NamePattern>,
    /// Maximum number of machines; `None` is unlimited.
    pub uses: Option<u32>,
    /// Facts that enrolled nodes add to their own.
    pub facts: BTreeMap<String, String>,
}

/// Parse errors of grants.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenGrantError {
    /// An invalid name pattern.
    #[error(transparent)]
    Name(#[from] NamePatternError),
    /// It permits no names.
    #[error("the grant has no name patterns")]
    NoNames,
    /// A limit is exceeded.
    #[error("the grant has {found} {kind}; at most {limit} are allowed")]
    TooMany {
        /// The kind of item.
        kind: &'static str,
        /// Number of items.
        found: usize,
        /// The limit.
        limit: usize,
    },
    /// An invalid use count.
    #[error("`{0}` is not a number of uses; use 1 or more")]
    Uses(String),
    /// An invalid fact.
    #[error(
        "`{0}` is not a fact; use NAME=VALUE, with letters, digits, `_`, `-` and `.` in the name and up to {limit} bytes in the value",
        limit = limits::MAX_TOKEN_GRANT_TEXT_BYTES
    )]
    Fact(String),
    /// An unknown tag, which may be a restriction of a newer version.
    #[error("the grant has the unknown tag `{0}`")]
    Unknown(String),
}

/// One fact in text form: `NAME=VALUE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenGrantFact {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

impl TokenGrant {
    /// Whether the grant permits this name.
    pub fn allows_name(&self, name: &Identity) -> bool {
        self.names.iter().any(|pattern| pattern.matches(name))
    }

    /// Encodes the grant as token tags.
    pub fn to_tags(&self) -> Result<Vec<String>, TokenGrantError> {
        self.check_limits()?;
        let names = self.names.iter().map(|name| format!("name:{name}"));
        let uses = self.uses.iter().map(|uses| format!("uses:{uses}"));
        let facts = self.facts.iter().map(|(name, value)| format!("fact:{name}={value}"));
        Ok(names.chain(uses).chain(facts).collect())
    }

    /// Parses the tags of a token. Unknown tags are refused, because they may be restrictions.
    pub fn from_tags(tags: &[String]) -> Result<Self, TokenGrantError> {
        let mut grant = Self::default();
        for tag in tags {
            let unknown = || TokenGrantError::Unknown(truncate_text(tag));
            match tag.split_once(':').ok_or_else(unknown)? {
                ("name", name) => grant.names.push(NamePattern::parse(name)?),
                ("uses", uses) if grant.uses.is_none() => {
                    let count = uses.parse().ok().filter(|count| *count > 0);
                    let invalid = || TokenGrantError::Uses(truncate_text(uses));
                    grant.uses = Some(count.ok_or_else(invalid)?);
                }
                ("fact", fact) => {
                    let TokenGrantFact { name, value } = fact.parse()?;
                    grant.facts.insert(name, value);
                }
                _ => return Err(unknown()),
            }
        }
        grant.check_limits()?;
        Ok(grant)
    }

    fn check_limits(&self) -> Result<(), TokenGrantError> {
        if self.names.is_empty() {
            return Err(TokenGrantError::NoNames);
        }
        for (kind, found, limit) in [
            ("name patterns", self.names.len(), limits::MAX_TOKEN_GRANT_NAMES),
            ("facts", self.facts.len(), limits::MAX_TOKEN_GRANT_FACTS),
        ] {
            if found > limit {
                return Err(TokenGrantError::TooMany { kind, found, limit });
            }
        }
        Ok(())
    }
}

impl FromStr for TokenGrantFact {
    type Err = TokenGrantError;
    fn from_str(text: &str) -> Result<Self, TokenGrantError> {
        let invalid = || TokenGrantError::Fact(truncate_text(text));
        let (name, value) = text.split_once('=').ok_or_else(invalid)?;
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let is_name_valid = !name.is_empty()
            && name.len() <= limits::MAX_NAME_BYTES
            && name.chars().all(is_allowed);
        if !is_name_valid
            || value.len() > limits::MAX_TOKEN_GRANT_TEXT_BYTES
            || value.chars().any(char::is_control)
        {
            return Err(invalid());
        }
        Ok(Self { name: name.to_owned(), value: value.to_owned() })
    }
}

impl fmt::Display for TokenGrantFact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.value)
    }
}

fn truncate_text(text: &str) -> String {
    text.chars().take(80).collect()
}
