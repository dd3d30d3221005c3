//! Renews node tokens: reads the current tokens from the trust bucket, signs a new token for the same name and key once a third of the
//! lifetime has passed, or once the signing key is replaced, and writes it in place of the old one.
//!
//! Services can write the trust bucket and the name register, so neither is trusted. Name, key and lifetime of a new token come from the
//! current token alone, which the signing key of the role node must have signed: a stolen service key cannot have a token signed for a key
//! that never had one. The register can only forbid a renewal.
//!
//! The name's entry is changed first, by compare-and-set. A revocation marks the same entry before it takes effect. So either the renewal
//! sees the mark, or the revocation sees the issue time of the renewed token, and revokes it too.

use bytes::Bytes;
use muster_wire::Millis;
use muster_wire::enrolment::{NameEntry, issue_node_token};
use muster_wire::identity::Identity;
use muster_wire::token::claims::UserClaims;
use muster_wire::token::decode::decode_token;
use muster_wire::token::encode::TokenIssueError;
use muster_wire::token::lifetime::TokenLife;
use muster_wire::token::{AccountTrust, KeyPair, PublicKey, Seconds, UserRole, VerifiedUser};

use crate::names::NameStore;
use crate::store::{Bucket, BucketError};

/// Errors of a renewal run.
#[derive(Debug, thiserror::Error)]
pub enum TokenRenewalError {
    /// A name or a token could not be read or written.
    #[error(transparent)]
    Store(#[from] BucketError),
    /// A token could not be signed.
    #[error("cannot sign a token for the node `{node}`")]
    Issue {
        /// The node.
        node: Identity,
        /// The signing error.
        #[source]
        source: TokenIssueError,
    },
}

/// The inputs of token renewal.
#[derive(Debug)]
pub struct TokenRenewal<'a> {
    /// The name register.
    pub names: &'a NameStore,
    /// The trust bucket, which nodes read.
    pub tokens: &'a Bucket,
    /// The newest account token. Keys that it revokes are not renewed.
    pub trust: &'a AccountTrust,
    /// The signing key of the role node.
    pub node_role: &'a KeyPair,
}

/// A current token that is to be replaced, as its issuer signed it.
struct DueToken {
    node: Identity,
    key: PublicKey,
    /// `None` never expires.
    lifetime: Option<Seconds>,
}

/// Which tokens to replace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReplacementRule {
    /// Those of which a third of the lifetime has passed.
    Due,
    /// Those that another key signed.
    SignedByOtherKey,
}

/// The user of a node token that is stored under this key of the bucket of tokens. `None` if the token fails verification, is not a node's, or
/// belongs to a node with another name.
pub fn verify_stored_token(
    trust: &AccountTrust,
    bucket_key: &str,
    token: &str,
    now: Millis,
) -> Option<VerifiedUser> {
    let verified = trust.verify_user(token, now).ok()?;
    let is_own = bucket_key == verified.identity.as_str();
    (verified.role == UserRole::Node && is_own).then_some(verified)
}

impl TokenRenewal<'_> {
    /// Renews all tokens that are due, and returns the names.
    pub async fn renew_due(&self, now: Millis) -> Result<Vec<Identity>, TokenRenewalError> {
        self.replace_tokens(ReplacementRule::Due, now).await
    }

    /// Signs a new token for each node whose token another key signed, with the same lifetime, and returns the names.
    pub async fn sign_again(&self, now: Millis) -> Result<Vec<Identity>, TokenRenewalError> {
        self.replace_tokens(ReplacementRule::SignedByOtherKey, now).await
    }

    async fn replace_tokens(
        &self,
        rule: ReplacementRule,
        now: Millis,
    ) -> Result<Vec<Identity>, TokenRenewalError> {
        let mut renewed = Vec::new();
        for entry in self.tokens.list(">").await? {
            let token = entry.value.as_deref().unwrap_or_default();
            if let Some(due) = self.due_token(&entry.key, token, rule, now)
                && self.renew_token(&due, now).await?
            {
                renewed.push(due.node);
            }
        }
        Ok(renewed)
    }

    /// The token under this key of the bucket of tokens, if it is the valid token of that node and the rule applies. A token that has expired is
    /// not replaced, and neither is one of a key that the account revokes.
    fn due_token(
        &self,
        bucket_key: &str,
        token: &[u8],
        rule: ReplacementRule,
        now: Millis,
    ) -> Option<DueToken> {
        let token = std::str::from_utf8(token).ok()?.trim();
        let decoded = decode_token::<UserClaims>(token).ok()?;
        let claims = decoded.unverified_claims();
        let life = TokenLife::of_claims(claims);
        let is_due = match rule {
            ReplacementRule::Due => life.is_some_and(|life| life.is_renewal_due(now)),
            ReplacementRule::SignedByOtherKey => claims.iss != self.node_role.public_key(),
        };
        // Checked before the signature, which costs far more: few tokens are due at a time.
        if !is_due || life.is_some_and(|life| life.has_expired(now)) {
            return None;
        }
        let verified = verify_stored_token(self.trust, bucket_key, token, now)?;
        (!self.trust.has_revocation(&verified.key)).then_some(DueToken {
            node: verified.identity,
            key: verified.key,
            lifetime: life.map(|life| life.lifetime),
        })
    }

    /// Renews one token. Returns false if the register forbids it: the name is revoked, released, unknown, or has another key.
    async fn renew_token(&self, due: &DueToken, now: Millis) -> Result<bool, TokenRenewalError> {
        let renew_entry = |entry: Option<NameEntry>| match entry {
            Some(mut entry) if entry.key == due.key && entry.is_renewable() => {
                entry.at = entry.at.max(now);
                (Some(entry), true)
            }
            _ => (None, false),
        };
        if !self.names.edit_entry(&due.node, renew_entry).await? {
            return Ok(false);
        }
        let account = self.trust.account_key();
        let life = due.lifetime.map(|lifetime| TokenLife::from_now(lifetime, now));
        let token = issue_node_token(&due.node, due.key, account, life, self.node_role, now);
        let token =
            token.map_err(|source| TokenRenewalError::Issue { node: due.node.clone(), source })?;
        self.tokens.put(due.node.as_str(), Bytes::from(token)).await?;
        Ok(true)
    }
}
