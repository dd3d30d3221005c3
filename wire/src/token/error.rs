//! Token verification errors.

use muster_base::format_utc;

use super::nkey::{KeyError, PublicKey};
use super::succession::SuccessionError;
use crate::identity::NameError;
use crate::{Millis, Seconds};

/// A result of decoding or verifying a token.
pub(crate) type Result<T, E = TokenError> = std::result::Result<T, E>;

/// Why a token is refused. Never contains the token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The token exceeds the size limit; it was not parsed.
    #[error("the token has {length} bytes; at most {limit} are allowed")]
    Oversized {
        /// Size in bytes.
        length: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// Not three parts of base64url joined by dots.
    #[error("the token is not three parts of base64url joined by dots")]
    Shape,
    /// A part is not valid JSON of its type.
    #[error("the token's {part} is invalid")]
    Json {
        /// `header` or `claims`.
        part: &'static str,
        /// The parser error.
        #[source]
        source: serde_json::Error,
    },
    /// Another header: the algorithm is fixed and cannot be chosen by the token.
    #[error("the token's algorithm is `{0}`; only `ed25519-nkey` is accepted")]
    Algorithm(String),
    /// Claims of another type or version.
    #[error("the token has the type `{found}` version {version}; expected `{expected}` version 2")]
    Type {
        /// The expected type.
        expected: &'static str,
        /// The type in the token.
        found: String,
        /// The version in the token.
        version: u8,
    },
    /// A key in the claims is invalid.
    #[error("the token contains an invalid key")]
    Key(#[from] KeyError),
    /// The signature does not match the issuer.
    #[error("the token's signature does not verify against {0}")]
    Signature(PublicKey),
    /// Signed by a key that is not a role's signing key in the account.
    #[error("the token is issued by {0}, which is not a signing key of a role in the account")]
    UnknownIssuer(PublicKey),
    /// The token belongs to another account or operator than the trusted one.
    #[error("the token belongs to {found}; only {expected} is trusted")]
    Foreign {
        /// The trusted key.
        expected: PublicKey,
        /// The key in the token.
        found: PublicKey,
    },
    /// The name is not a valid identity.
    #[error("the token's name is not an identity")]
    Name(#[source] NameError),
    /// The name is not in its normalised spelling.
    #[error("the token's name `{0}` must be in lower case and must not end with a dot")]
    NameSpelling(String),
    /// The token expired.
    #[error("the token of {name} expired at {}; issue a new one", format_utc(at / 1000))]
    Expired {
        /// The user's name.
        name: String,
        /// Expiry time.
        at: Millis,
    },
    /// The token is not valid yet.
    #[error("the token of {name} is not valid before {}", format_utc(at / 1000))]
    NotYet {
        /// The user's name.
        name: String,
        /// Start of validity.
        at: Millis,
    },
    /// Revoked by the account.
    #[error("the token of {0} was revoked")]
    Revoked(String),
    /// The succession statements of an account token are not valid.
    #[error("the account token's succession of operators is not valid")]
    Succession(#[source] Box<SuccessionError>),
    /// The update is not newer than the current token.
    #[error("the account token was issued at {}, not later than the known one at {}", format_utc(*found), format_utc(*known))]
    NotNewer {
        /// Issue time of the current token.
        known: Seconds,
        /// Issue time of the update.
        found: Seconds,
    },
}

impl From<SuccessionError> for TokenError {
    fn from(error: SuccessionError) -> Self {
        Self::Succession(Box::new(error))
    }
}

impl TokenError {
    /// A stable identifier for counters and audit.
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
            Self::Succession(_) => "operator_succession",
            Self::NotNewer { .. } => "not_newer",
        }
    }
}
