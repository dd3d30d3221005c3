//! Renews node tokens: finds names whose token has used a third of its lifetime, signs a new token for the same key, and writes it to
//! the trust bucket.
//!
//! The name's entry is changed first, by compare-and-set. A revocation marks the same entry before it takes effect. So either the renewal
//! sees the mark, or the revocation sees the issue time of the renewed token, and revokes it too.

use bytes::Bytes;
use muster_wire::Millis;
use muster_wire::enrol::{NameEntry, issue_node_token};
use muster_wire::identity::Identity;
use muster_wire::stores;
use muster_wire::token::encode::TokenIssueError;
use muster_wire::token::lifetime::TokenLife;
use muster_wire::token::{AccountTrust, KeyPair};

use crate::names::NameStore;
use crate::store::{Bucket, BucketError};

/// Errors of a renewal run.
#[derive(Debug, thiserror::Error)]
pub enum TokenRenewalError {
    /// A name or a token could not be read or written.
    #[error(transparent)]
    Store(#[from] BucketError),
    /// A token could not be signed.
    #[error("no token could be signed for the node {node}")]
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

impl TokenRenewal<'_> {
    /// Renews all tokens that are due, and returns the names.
    pub async fn renew_due(&self, now: Millis) -> Result<Vec<Identity>, TokenRenewalError> {
        let mut renewed = Vec::new();
        for entry in self.names.list().await? {
            if self.is_due(&entry, now) && self.renew_token(&entry, now).await? {
                renewed.push(entry.identity);
            }
        }
        Ok(renewed)
    }

    fn is_due(&self, entry: &NameEntry, now: Millis) -> bool {
        entry.is_renewable()
            && entry.life.is_some_and(|life| life.is_renewal_due(now))
            && !self.trust.has_revocation(&entry.key)
    }

    /// Renews one token. Returns false if the entry was changed meanwhile and is not due any more.
    async fn renew_token(&self, entry: &NameEntry, now: Millis) -> Result<bool, TokenRenewalError> {
        let Some(old) = entry.life else {
            return Ok(false);
        };
        let life = TokenLife::from_now(old.lifetime, now);
        let begin = |held: Option<NameEntry>| match held {
            Some(mut held) if held.key == entry.key && self.is_due(&held, now) => {
                held.at = now;
                held.life = Some(life);
                (Some(held), true)
            }
            _ => (None, false),
        };
        if !self.names.edit_entry(&entry.identity, begin).await? {
            return Ok(false);
        }
        let written = self.write_token(entry, life, now).await;
        if written.is_err() {
            // The node still has the old token, so restore the entry for a retry in the next run.
            let restore = |held: Option<NameEntry>| match held {
                Some(mut held) if held.key == entry.key && held.life == Some(life) => {
                    held.life = Some(old);
                    (Some(held), ())
                }
                _ => (None, ()),
            };
            self.names.edit_entry(&entry.identity, restore).await?;
        }
        written.map(|()| true)
    }

    async fn write_token(
        &self,
        entry: &NameEntry,
        life: TokenLife,
        now: Millis,
    ) -> Result<(), TokenRenewalError> {
        let (name, account) = (&entry.identity, self.trust.account_key());
        let token = issue_node_token(name, entry.key, account, Some(life), self.node_role, now);
        let token = token.map_err(|source| TokenRenewalError::Issue {
            node: name.clone(),
            source,
        })?;
        let key = stores::renewed_token_key(name.as_str());
        self.tokens.put(&key, Bytes::from(token)).await?;
        Ok(())
    }
}
