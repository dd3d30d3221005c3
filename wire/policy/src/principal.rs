//! Policy principals: a role and a name. A service and a caller of the same name are two principals.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use muster_wire::identity::{Identity, NameError};
use muster_wire::token::{UserRole, VerifiedUser};

/// The prefix of a service name.
const SERVICE_PREFIX: &str = "service";
/// Accepted prefixes of a caller name: our own, `MCollective`'s, and Choria's for certificates and for users who log in.
pub(super) const CALLER_PREFIXES: [&str; 4] = ["caller", "cert", "choria", "up"];
/// The prefix of `MCollective` for the number of a user on an unnamed machine. There is no such caller.
const UID_PREFIX: &str = "uid";

/// The sender of a request. Written `NAME` for a caller, `service=NAME` for a service.
#[derive(
    Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[schemars(with = "String")]
#[serde(try_from = "String", into = "String")]
pub struct PolicyPrincipal {
    role: PrincipalRole,
    name: Identity,
}

/// The roles that may send requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PrincipalRole {
    /// A user of `rpc`.
    Caller,
    /// A central plugin.
    Service,
}

/// The text is not a valid principal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PrincipalError {
    /// The prefix before `=` is unknown.
    #[error(
        "`{0}` has an unknown prefix; write a caller as `NAME`, `caller=NAME`, `cert=NAME`, `choria=NAME` or `up=NAME`, and a service as `service=NAME`"
    )]
    Kind(String),
    /// A user id, as in policies for `MCollective`.
    #[error(
        "`{0}` is a user id of an unnamed machine, which identifies no caller; write the caller's name, as in `rpc org list`"
    )]
    UserId(String),
    /// The name is invalid.
    #[error("`{word}` is not a caller: {error}")]
    Name {
        /// The word.
        word: String,
        /// The name error.
        error: NameError,
    },
}

impl PolicyPrincipal {
    /// A caller with this name.
    pub fn from_caller(name: Identity) -> Self {
        Self { role: PrincipalRole::Caller, name }
    }

    /// A service with this name.
    pub fn from_service(name: Identity) -> Self {
        Self { role: PrincipalRole::Service, name }
    }

    /// The principal of a verified sender. Requests are opened only from callers and services.
    pub fn from_verified(sender: &VerifiedUser) -> Self {
        let name = sender.identity.clone();
        match sender.role {
            UserRole::Service => Self::from_service(name),
            _ => Self::from_caller(name),
        }
    }

    /// Parses `NAME`, `service=NAME`, or one of the prefixed forms.
    pub fn parse(word: &str) -> Result<Self, PrincipalError> {
        let (role, name) = split_role(word).ok_or_else(|| match word.split_once('=') {
            Some((UID_PREFIX, _)) => PrincipalError::UserId(word.to_owned()),
            _ => PrincipalError::Kind(word.to_owned()),
        })?;
        let name = Identity::parse(name)
            .map_err(|error| PrincipalError::Name { word: word.to_owned(), error })?;
        Ok(Self { role, name })
    }

    /// The role.
    pub fn role(&self) -> PrincipalRole {
        self.role
    }

    /// The name, without the role.
    pub fn name(&self) -> &Identity {
        &self.name
    }
}

/// The role of a word, and the rest of it; `None` for an unknown prefix before `=`.
pub(super) fn split_role(word: &str) -> Option<(PrincipalRole, &str)> {
    // An expression may contain `=`.
    if word.starts_with('/') {
        return Some((PrincipalRole::Caller, word));
    }
    match word.split_once('=') {
        None => Some((PrincipalRole::Caller, word)),
        Some((SERVICE_PREFIX, name)) => Some((PrincipalRole::Service, name)),
        Some((kind, name)) if CALLER_PREFIXES.contains(&kind) => {
            Some((PrincipalRole::Caller, name))
        }
        Some(_) => None,
    }
}

impl fmt::Display for PolicyPrincipal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.role {
            PrincipalRole::Caller => write!(out, "{}", self.name),
            PrincipalRole::Service => write!(out, "{SERVICE_PREFIX}={}", self.name),
        }
    }
}

muster_wire::impl_text_form!(PolicyPrincipal, PrincipalError);
