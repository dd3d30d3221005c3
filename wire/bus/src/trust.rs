//! Reads the newest account token from the trust bucket and verifies it. The caller decides whether to continue without one.

use muster_base::format_utc;
use std::time::Duration;

use muster_wire::stores::{TRUST_ACCOUNT_KEY, TRUST_BUCKET, TRUST_HEAD_KEY};
use muster_wire::token::head::{AccountHead, AccountHeadError};
use muster_wire::token::{AccountTrust, Seconds, TokenError};

use crate::connection::Bus;
use crate::store::BucketError;

/// Timeout of one lookup of a newer account token.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// Errors of an account token lookup.
#[derive(Debug, thiserror::Error)]
pub enum TrustLookupError {
    /// The bucket cannot be read.
    #[error(transparent)]
    Store(#[from] BucketError),
    /// The bucket has no token: `rpc org push` of this version was not run.
    #[error("the bucket `{}` contains no account token; run `rpc org push`", TRUST_BUCKET.name)]
    Empty,
    /// The head is invalid.
    #[error(transparent)]
    Head(#[from] AccountHeadError),
    /// The token that the head names failed verification.
    #[error("the account token in the bucket `{}` failed verification", TRUST_BUCKET.name)]
    Token(#[source] TokenError),
    /// The token in the bucket is older than the known one.
    #[error(
        "the account token in the bucket `{}` was issued at {}, earlier than the known one, issued at {}; run `rpc org push`",
        TRUST_BUCKET.name,
        format_utc(*found),
        format_utc(*known)
    )]
    Behind {
        /// Issue time of the known token.
        known: Seconds,
        /// Issue time of the token in the bucket.
        found: Seconds,
    },
    /// The head names another token with the same serial number.
    #[error("the head in the bucket `{}` is of another account token with the same serial number {serial}", TRUST_BUCKET.name)]
    Differs {
        /// The common serial number.
        serial: Seconds,
    },
    /// The lookup timed out.
    #[error("cannot read the bucket `{}` within {} s", TRUST_BUCKET.name, LOOKUP_TIMEOUT.as_secs())]
    Timeout,
}

impl Bus {
    /// Reads the head of the account token, without retries.
    pub async fn account_head(&self) -> Result<AccountHead, TrustLookupError> {
        let lookup = async {
            let entry = self.bucket(TRUST_BUCKET.name).get_once(TRUST_HEAD_KEY).await?;
            let value = entry.and_then(|entry| entry.value);
            Ok(AccountHead::parse(&value.ok_or(TrustLookupError::Empty)?)?)
        };
        let found = tokio::time::timeout(LOOKUP_TIMEOUT, lookup).await;
        found.map_err(|_| TrustLookupError::Timeout)?
    }

    /// The verified account token that the head names, if it is newer than the known one; `None` means that the known one is the newest.
    pub async fn newer_account(
        &self,
        known: &AccountTrust,
        head: &AccountHead,
    ) -> Result<Option<AccountTrust>, TrustLookupError> {
        let serial = known.issued_at();
        if head.serial < serial {
            return Err(TrustLookupError::Behind { known: serial, found: head.serial });
        }
        if head.serial == serial {
            let is_same = *head == AccountHead::of_trust(known);
            return if is_same { Ok(None) } else { Err(TrustLookupError::Differs { serial }) };
        }
        let bucket = self.bucket(TRUST_BUCKET.name);
        let entry = tokio::time::timeout(LOOKUP_TIMEOUT, bucket.get_once(TRUST_ACCOUNT_KEY)).await;
        let entry = entry.map_err(|_| TrustLookupError::Timeout)??;
        let value = entry.and_then(|entry| entry.value);
        let value = value.ok_or(TrustLookupError::Empty)?;
        let text = String::from_utf8_lossy(&value);
        let newer = known.update(&text).map_err(TrustLookupError::Token)?;
        // The token is written before its head, so it may be newer than the head, but never older.
        if newer.issued_at() < head.serial {
            return Err(TrustLookupError::Behind { known: head.serial, found: newer.issued_at() });
        }
        Ok(Some(newer))
    }
}
