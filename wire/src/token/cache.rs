//! Remembers which tokens were verified, so that the second message of a party costs one signature instead of two.
//!
//! It remembers only good tokens, and asks again at each use whether time or a revocation has ended them. When the
//! trust changes it forgets everything by itself. What it has verified can be taken along to another process ([`TokenCache::export_verified`],
//! [`TokenCache::import_verified`]).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest as _, Sha256};

use super::verified_cache::{self, VerifiedTokens};
use super::{AccountTrust, KeyPair, PublicKey, TokenError, VerifiedUser};
use crate::{Millis, limits};

/// How many parties are remembered unless told otherwise: a whole fleet's nodes.
pub const DEFAULT_CAPACITY: usize = 64 * 1024;

/// Verified tokens by their hash. Bounded: a full one begins anew, which costs time and nothing else.
#[derive(Debug)]
pub struct TokenCache {
    capacity: usize,
    inner: Mutex<TokenCacheState>,
}

#[derive(Debug, Default)]
struct TokenCacheState {
    trust: [u8; 32],
    parties: HashMap<TokenDigest, Arc<VerifiedUser>>,
    /// Whose signatures need no second look.
    vouched: VerifiedTokens,
    /// Whether there is a party that nobody has vouched for.
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
    /// A cache of at most this many parties.
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            inner: Mutex::default(),
        }
    }

    /// How many parties are remembered.
    pub fn len(&self) -> usize {
        self.lock_state().parties.len()
    }

    /// Whether nobody is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets everybody.
    pub fn clear(&self) {
        *self.lock_state() = TokenCacheState::default();
    }

    /// [`AccountTrust::verify_user`], with what is remembered.
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

    /// The party with this token, if it is remembered; an error if its time has come.
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

    /// Whether this token's signature was verified under this trust before.
    pub(crate) fn has_imported_token(&self, trust: &AccountTrust, digest: &TokenDigest) -> bool {
        self.lock_for(trust).vouched.contains_key(digest)
    }

    /// What was verified under this trust, now and before, for a file: signed by its keeper. `None` if nothing new was.
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
        // Whom it has met now comes first: there is a limit.
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

    /// Takes in what [`Self::export_verified`] has written, if it was for this keeper and this trust. Answers how many tokens that are.
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

    /// Remembers a party. Only after its token's signature was verified under this trust.
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

    /// A panic while the lock was held leaves the map whole, so poisoning is no reason to stop.
    fn lock_state(&self) -> MutexGuard<'_, TokenCacheState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The key of a token in the cache, after its length was checked.
pub(crate) fn token_digest(jwt: &str) -> Result<TokenDigest, TokenError> {
    let (length, limit) = (jwt.len(), limits::MAX_USER_TOKEN_BYTES);
    if length > limit {
        return Err(TokenError::Oversized { length, limit });
    }
    Ok(Sha256::digest(jwt).into())
}
