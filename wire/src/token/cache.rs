//! Cache of verified tokens: further messages of a sender cost one signature verification instead of two.
//!
//! It stores only valid tokens, and checks expiry and revocation at each use. It clears itself when the trust changes. Its content can be
//! transferred to another process ([`TokenCache::export_verified`], [`TokenCache::import_verified`]).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest as _, Sha256};

use super::verified_cache::{self, VerifiedTokens};
use super::{AccountTrust, KeyPair, PublicKey, TokenError, VerifiedUser};
use crate::{Millis, limits};

/// Default capacity in users: enough for the nodes of a fleet.
pub const DEFAULT_CAPACITY: usize = 64 * 1024;

/// Verified tokens by hash. Bounded: when full it is cleared, which costs only re-verification.
#[derive(Debug)]
pub struct TokenCache {
    capacity: usize,
    inner: Mutex<TokenCacheState>,
}

#[derive(Debug, Default)]
struct TokenCacheState {
    trust: [u8; 32],
    parties: HashMap<TokenDigest, Arc<VerifiedUser>>,
    /// Imported tokens whose signature needs no verification.
    vouched: VerifiedTokens,
    /// Whether the cache has a user that was not imported.
    learnt: bool,
}

/// SHA-256 of a token's text.
pub(crate) type TokenDigest = [u8; 32];

impl Default for TokenCache {
    fn default() -> Self {
        Self::new(DEFAULT_CAPACITY)
    }
}

impl TokenCache {
    /// Creates a cache of at most this many users.
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            inner: Mutex::default(),
        }
    }

    /// Number of cached users.
    pub fn len(&self) -> usize {
        self.lock_state().parties.len()
    }

    /// Whether the cache is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Clears the cache.
    pub fn clear(&self) {
        *self.lock_state() = TokenCacheState::default();
    }

    /// [`AccountTrust::verify_user`] with caching.
    pub fn verify_user(
        &self,
        trust: &AccountTrust,
        jwt: &str,
        now: Millis,
    ) -> Result<Arc<VerifiedUser>, TokenError> {
        let digest = token_digest(jwt)?;
        if let Some(party) = self.get_verified(trust, &digest, now)? {
            return Ok(party);
        }
        let candidate = trust.check_claims(jwt, now)?;
        if !self.has_imported_token(trust, &digest) {
            candidate.verify_signature()?;
        }
        let party = Arc::new(candidate.verified);
        self.insert_verified(trust, digest, Arc::clone(&party));
        Ok(party)
    }

    /// The cached user of this token, if any; an error if the token expired or was revoked.
    pub(crate) fn get_verified(
        &self,
        trust: &AccountTrust,
        digest: &TokenDigest,
        now: Millis,
    ) -> Result<Option<Arc<VerifiedUser>>, TokenError> {
        let party = self.lock_for(trust).parties.get(digest).map(Arc::clone);
        if let Some(party) = &party {
            trust.check_still_valid(party, now)?;
        }
        Ok(party)
    }

    /// Whether this token's signature was verified earlier under this trust and imported.
    pub(crate) fn has_imported_token(&self, trust: &AccountTrust, digest: &TokenDigest) -> bool {
        self.lock_for(trust).vouched.contains_key(digest)
    }

    /// Exports the tokens verified under this trust, including imported ones, signed with the given key. `None` if nothing changed.
    pub fn export_verified(
        &self,
        trust: &AccountTrust,
        keeper: &KeyPair,
        now: Millis,
    ) -> Option<Vec<u8>> {
        let inner = self.lock_for(trust);
        if !inner.learnt {
            return None;
        }
        let parties = inner.parties.iter();
        let now_met =
            parties.map(|(digest, party)| (*digest, party.expires.unwrap_or(Millis::MAX)));
        // Tokens of this process come first, because the export is limited.
        let mut tokens: Vec<(TokenDigest, Millis)> = now_met.collect();
        let before = inner.vouched.iter();
        let before = before.filter(|(digest, _)| !inner.parties.contains_key(*digest));
        tokens.extend(before.map(|(digest, until)| (*digest, *until)));
        tokens.retain(|(_, until)| *until >= now);
        Some(verified_cache::encode_verified_tokens(
            trust.fingerprint(),
            tokens.into_iter(),
            keeper,
        ))
    }

    /// Imports the output of [`Self::export_verified`], if key and trust match. Returns the number of tokens.
    pub fn import_verified(
        &self,
        trust: &AccountTrust,
        keeper: PublicKey,
        bytes: &[u8],
        now: Millis,
    ) -> usize {
        let mut inner = self.lock_for(trust);
        let tokens =
            verified_cache::decode_verified_tokens(bytes, trust.fingerprint(), keeper, now);
        inner.vouched = tokens.unwrap_or_default();
        inner.vouched.len()
    }

    /// Inserts a user. Its token's signature must have been verified under this trust.
    pub(crate) fn insert_verified(
        &self,
        trust: &AccountTrust,
        digest: TokenDigest,
        party: Arc<VerifiedUser>,
    ) {
        let mut inner = self.lock_for(trust);
        if inner.parties.len() >= self.capacity {
            inner.parties.clear();
        }
        if self.capacity > 0 {
            inner.learnt |= !inner.vouched.contains_key(&digest);
            inner.parties.insert(digest, party);
        }
    }

    fn lock_for(&self, trust: &AccountTrust) -> MutexGuard<'_, TokenCacheState> {
        let mut inner = self.lock_state();
        if inner.trust != *trust.fingerprint() {
            *inner = TokenCacheState {
                trust: *trust.fingerprint(),
                ..TokenCacheState::default()
            };
        }
        inner
    }

    /// A panic while the lock is held leaves the map consistent, so poisoning is ignored.
    fn lock_state(&self) -> MutexGuard<'_, TokenCacheState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The cache key of a token, after a length check.
pub(crate) fn token_digest(jwt: &str) -> Result<TokenDigest, TokenError> {
    let (length, limit) = (jwt.len(), limits::MAX_USER_TOKEN_BYTES);
    if length > limit {
        return Err(TokenError::Oversized { length, limit });
    }
    Ok(Sha256::digest(jwt).into())
}
