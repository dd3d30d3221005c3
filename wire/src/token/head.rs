//! The head record of an account token: serial number and digest of the newest token, so that only readers of an older one fetch it.
//!
//! The head is unsigned and needs no trust: the token that it names is verified up to the operator.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::trust::AccountTrust;
use crate::Seconds;

/// Largest head that is parsed, in bytes.
const MAX_HEAD_BYTES: usize = 1024;

/// Identifies the newest account token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountHead {
    /// Issue time in seconds; strictly increasing from token to token.
    pub serial: Seconds,
    /// SHA-256 of the token, in hexadecimal digits.
    pub sha256: String,
    /// Length of the token in bytes.
    pub bytes: u64,
}

/// Parse errors of heads.
#[derive(Debug, thiserror::Error)]
pub enum AccountHeadError {
    /// The text exceeds the size limit.
    #[error("the head of the account token has {0} bytes; at most {MAX_HEAD_BYTES} are allowed")]
    Oversized(usize),
    /// Not valid JSON of this type.
    #[error("cannot parse the head of the account token")]
    Json(#[from] serde_json::Error),
}

impl AccountHead {
    /// The head of this trust's account token.
    pub fn of_trust(trust: &AccountTrust) -> Self {
        Self {
            serial: trust.issued_at(),
            sha256: data_encoding::HEXLOWER.encode(&Sha256::digest(trust.account_token())),
            bytes: trust.account_token().len() as u64,
        }
    }

    /// Parses a head.
    pub fn parse(bytes: &[u8]) -> Result<Self, AccountHeadError> {
        if bytes.len() > MAX_HEAD_BYTES {
            return Err(AccountHeadError::Oversized(bytes.len()));
        }
        Ok(serde_json::from_slice(bytes)?)
    }

    /// Serializes the head.
    pub fn to_json(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(self)
    }
}

#[cfg(test)]
mod tests {
    use super::{AccountHead, AccountHeadError, MAX_HEAD_BYTES};

    #[test]
    fn head_round_trips_through_text() {
        let head = AccountHead { serial: 1_800_000_000, sha256: "ab".repeat(32), bytes: 2500 };
        let text = head.to_json().unwrap();
        assert_eq!(AccountHead::parse(&text).unwrap(), head);
        assert!(matches!(
            AccountHead::parse(&vec![b' '; MAX_HEAD_BYTES + 1]),
            Err(AccountHeadError::Oversized(_))
        ));
        for bad in ["", "{}", "[]", "{\"serial\":-1}"] {
            assert!(matches!(AccountHead::parse(bad.as_bytes()), Err(AccountHeadError::Json(_))));
        }
    }
}
