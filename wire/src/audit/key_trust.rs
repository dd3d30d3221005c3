//! Whether the key in the header of a log is the node's.

use crate::identity::Identity;
use crate::token::{AccountTrust, KeyError, PublicKey, TokenError, UserRole};
use ed25519_dalek::VerifyingKey;

use super::AUDIT_FORMAT;
use super::line_kinds::AuditHeader;

/// How the verifier trusts a header's key.
#[derive(Debug, Clone)]
pub enum AuditKeyTrust {
    /// By the tokens in the header, if this operator signed the account token.
    Operator(PublicKey),
    /// The key must be one of these.
    Keys(Vec<PublicKey>),
}

/// Why the key in a header is not trusted.
#[derive(Debug, thiserror::Error)]
pub(super) enum HeaderKeyError {
    #[error("the format in the header is not {AUDIT_FORMAT}")]
    Format,
    #[error("{0} is not one of the given keys")]
    NotGiven(PublicKey),
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error("the token in the header is for another key")]
    OtherKey,
    #[error("the token in the header belongs to {0}")]
    OtherNode(Identity),
    #[error("the token in the header has the role {0}, not node or service")]
    WrongRole(UserRole),
    #[error(transparent)]
    Key(#[from] KeyError),
}

impl AuditKeyTrust {
    /// Verifies the header's key by the tokens or by the pinned keys.
    pub(super) fn verify_header(
        &self,
        header: &AuditHeader,
    ) -> Result<VerifyingKey, HeaderKeyError> {
        if header.format != AUDIT_FORMAT {
            return Err(HeaderKeyError::Format);
        }
        match self {
            Self::Keys(keys) if keys.contains(&header.key) => {}
            Self::Keys(_) => return Err(HeaderKeyError::NotGiven(header.key)),
            Self::Operator(operator) => {
                let trust = AccountTrust::new(*operator, &header.account)?;
                let user = trust.verify_user(&header.token, header.unix_ms)?;
                if user.key != header.key {
                    return Err(HeaderKeyError::OtherKey);
                }
                if user.identity != header.node {
                    return Err(HeaderKeyError::OtherNode(user.identity));
                }
                if !matches!(user.role, UserRole::Node | UserRole::Service) {
                    return Err(HeaderKeyError::WrongRole(user.role));
                }
            }
        }
        Ok(header.key.verifying_key()?)
    }
}
