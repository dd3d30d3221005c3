//! Why a token is not believed.

use super::Seconds;
use super::nkey::{KeyError, PublicKey};
use crate::Millis;
use crate::identity::NameError;

/// Why a token is not believed. Never repeats the token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// Larger than the limit; not even looked at.
    #[error("the token is {length} bytes long, more than {limit}")]
    Oversized {
        /// Bytes given.
        length: usize,
        /// Bytes accepted.
        limit: usize,
    },
    /// Not three parts of base64url joined by dots.
    #[error("the token is not three parts of base64url joined by dots")]
    Shape,
    /// A part is not the JSON it should be.
    #[error("the token's {part} is not valid")]
    Json {
        /// `header` or `claims`.
        part: &'static str,
        /// What the parser says.
        #[source]
        source: serde_json::Error,
    },
    /// A header other than ours: the algorithm is never the token's choice.
    #[error("the token's algorithm is `{0}`; only `ed25519-nkey` is accepted")]
    Algorithm(String),
    /// Claims for another kind of party, or of another version.
    #[error(
        "the token is of type `{found}` version {version}, but `{expected}` version 2 is needed"
    )]
    Type {
        /// The type that is needed.
        expected: &'static str,
        /// The type that was found.
        found: String,
        /// The version that was found.
        version: u8,
    },
    /// A key in the claims that cannot be used.
    #[error("the token holds an unusable key")]
    Key(#[from] KeyError),
    /// The signature is not the issuer's.
    #[error("the token's signature does not verify against {issuer}")]
    Signature {
        /// Who is said to have signed.
        issuer: PublicKey,
    },
    /// Signed by a key that the account does not list for a role.
    #[error("the token is issued by {issuer}, which is not a signing key of a role in the account")]
    UnknownIssuer {
        /// Who signed.
        issuer: PublicKey,
    },
    /// Of another account or operator than the trusted one.
    #[error("the token belongs to {found}, but {expected} is trusted here")]
    Foreign {
        /// Who is trusted.
        expected: PublicKey,
        /// Whom the token names.
        found: PublicKey,
    },
    /// The name is not an identity in its one spelling.
    #[error("the token's name is not an identity")]
    Name(#[source] NameError),
    /// The name is not in its one spelling.
    #[error("the token's name `{0}` is not in lower case without a dot at its end")]
    NameSpelling(String),
    /// Past its end.
    #[error("the token of {name} expired at {at} ms since the epoch; issue a new one")]
    Expired {
        /// Whose it is.
        name: String,
        /// When.
        at: Millis,
    },
    /// Before its beginning.
    #[error("the token of {name} is not valid before {at} ms since the epoch")]
    NotYet {
        /// Whose it is.
        name: String,
        /// From when on.
        at: Millis,
    },
    /// Revoked by the account.
    #[error("the token of {name} was revoked")]
    Revoked {
        /// Whose it was.
        name: String,
    },
    /// An update that is not newer than what is known.
    #[error("the account token was issued at {found}, not later than the known one at {known}")]
    NotNewer {
        /// When the known one was issued.
        known: Seconds,
        /// When the offered one was issued.
        found: Seconds,
    },
}

impl TokenError {
    /// A stable word for counters and audit.
    pub fn reason_code(&self) -> &'static str {
        match self {
            Self::Oversized { .. } => "token_oversized",
            Self::Shape | Self::Json { .. } | Self::Type { .. } | Self::Key(_) => "token_malformed",
            Self::Name(_) | Self::NameSpelling(_) => "token_name",
            Self::Algorithm(_) => "token_algorithm",
            Self::Signature { .. } => "token_signature",
            Self::UnknownIssuer { .. } => "unknown_issuer",
            Self::Foreign { .. } => "foreign_account",
            Self::Expired { .. } => "token_expired",
            Self::NotYet { .. } => "token_not_yet",
            Self::Revoked { .. } => "revoked",
            Self::NotNewer { .. } => "not_newer",
        }
    }
}
