//! Cache of verified tokens: further messages of a sender cost one signature verification instead of two.
//!
//! It stores only valid tokens, and checks expiry and revocation at each use. It clears itself when the trust changes. Its content can be
//! transferred to another process ([`TokenCache::export_verified`], [`TokenCache::import_verified`]).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest as _, Sha256};

use super::error::{Result, TokenError};
use super::nkey::{KeyPair, PublicKey};
use super::trust::{AccountTrust, VerifiedUser};
use super::verified_cache::{self, VerifiedTokens};
use crate::{Millis, limits};

/// Default capacity in users: enough for the nodes of a fleet.
pub const DEFAULT_CAPACITY: usize = 64 * 1024;

/// Verified tokens by hash. Bounded: when full it is cleared, which costs only re-verification.
#[derive(Debug)]
pub struct TokenCache {
    capacity: usize,
    state: Mutex<TokenCacheState>,
}

#[derive(Debug, Default)]
struct TokenCacheState {
    trust: [u8; 32],
    users: HashMap<TokenDigest, Arc<VerifiedUser>>,
    /// Imported tokens whose signature needs no verification.
    imported: VerifiedTokens,
    /// Whether the cache has a user that was not imported.
    has_new_users: bool,
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
        Self { capacity, state: Mutex::default() }
    }

    /// Number of cached users.
    pub fn len(&self) -> usize {
        self.lock_state().users.len()
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
    ) -> Result<Arc<VerifiedUser>> {
        let digest = token_digest(jwt)?;
        if let Some(user) = self.get_verified(trust, &digest, now)? {
            return Ok(user);
        }
        let candidate = trust.check_claims(jwt, now)?;
        if !self.has_imported_token(trust, &digest) {
            candidate.verify_signature()?;
        }
        let user = Arc::new(candidate.verified);
        self.insert_verified(trust, digest, Arc::clone(&user));
        Ok(user)
    }

    /// The cached user of this token, if any; an error if the token expired or was revoked.
    pub(crate) fn get_verified(
        &self,
        trust: &AccountTrust,
        digest: &TokenDigest,
        now: Millis,
    ) -> Result<Option<Arc<VerifiedUser>>> {
        let user = self.lock_for(trust).users.get(digest).map(Arc::clone);
        if let Some(user) = &user {
            trust.check_still_valid(user, now)?;
        }
        Ok(user)
    }

    /// Whether this token's signature was verified earlier under this trust and imported.
    pub(crate) fn has_imported_token(&self, trust: &AccountTrust, digest: &TokenDigest) -> bool {
        self.lock_for(trust).imported.contains_key(digest)
    }

    /// Exports the tokens verified under this trust, including imported ones, signed with the given key. `None` if nothing changed.
    pub fn export_verified(
        &self,
        trust: &AccountTrust,
        key_pair: &KeyPair,
        now: Millis,
    ) -> Option<Vec<u8>> {
        let state = self.lock_for(trust);
        if !state.has_new_users {
            return None;
        }
        let users = state.users.iter();
        let verified = users.map(|(digest, user)| (*digest, user.expires.unwrap_or(Millis::MAX)));
        // Tokens of this process come first, because the export is limited.
        let mut tokens: Vec<(TokenDigest, Millis)> = verified.collect();
        let previous = state.imported.iter();
        let previous = previous.filter(|(digest, _)| !state.users.contains_key(*digest));
        tokens.extend(previous.map(|(digest, until)| (*digest, *until)));
        tokens.retain(|(_, until)| *until >= now);
        Some(verified_cache::encode_verified_tokens(
            trust.fingerprint(),
            tokens.into_iter(),
            key_pair,
        ))
    }

    /// Imports the output of [`Self::export_verified`], if key and trust match. Returns the number of tokens.
    pub fn import_verified(
        &self,
        trust: &AccountTrust,
        public_key: PublicKey,
        bytes: &[u8],
        now: Millis,
    ) -> usize {
        let mut state = self.lock_for(trust);
        let tokens =
            verified_cache::decode_verified_tokens(bytes, trust.fingerprint(), public_key, now);
        state.imported = tokens.unwrap_or_default();
        state.imported.len()
    }

    /// Inserts a user. Its token's signature must have been verified under this trust.
    pub(crate) fn insert_verified(
        &self,
        trust: &AccountTrust,
        digest: TokenDigest,
        user: Arc<VerifiedUser>,
    ) {
        let mut state = self.lock_for(trust);
        if state.users.len() >= self.capacity {
            state.users.clear();
        }
        if self.capacity > 0 {
            state.has_new_users |= !state.imported.contains_key(&digest);
            state.users.insert(digest, user);
        }
    }

    fn lock_for(&self, trust: &AccountTrust) -> MutexGuard<'_, TokenCacheState> {
        let mut state = self.lock_state();
        if state.trust != *trust.fingerprint() {
            *state = TokenCacheState { trust: *trust.fingerprint(), ..TokenCacheState::default() };
        }
        state
    }

    /// A panic while the lock is held leaves the map consistent, so poisoning is ignored.
    fn lock_state(&self) -> MutexGuard<'_, TokenCacheState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The cache key of a token, after a length check.
pub(crate) fn token_digest(jwt: &str) -> Result<TokenDigest> {
    let (length, limit) = (jwt.len(), limits::MAX_USER_TOKEN_BYTES);
    if length > limit {
        return Err(TokenError::Oversized { length, limit });
    }
    Ok(Sha256::digest(jwt).into())
}
