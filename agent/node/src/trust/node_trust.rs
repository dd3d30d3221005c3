//! Whom a node or service trusts, and how it proves who it is: the account token, its own signer, and the tokens that it has verified.

use std::fmt;

use muster_wire::identity::Identity;
use muster_wire::sign::{Signer, SignerRenewError};
use muster_wire::token::lifetime::TokenLife;
use muster_wire::token::{AccountTrust, TokenCache, TokenError, UserRole};

use crate::ground::clock::WallClock;
use crate::ground::shared::SharedValue;
use crate::trust::freshness::TrustFreshness;

#[derive(Debug, thiserror::Error)]
pub enum NodeTokenRenewalError {
    /// Peers would reject it.
    #[error("the renewed token is not valid")]
    Token(#[from] TokenError),
    /// It does not replace the current one.
    #[error(transparent)]
    Renew(#[from] SignerRenewError),
    #[error("the renewed token is for another role")]
    Role,
}

pub struct NodeTrust {
    pub signer: Signer,
    pub account: SharedValue<AccountTrust>,
    /// Since when it is unknown whether the account token is the newest.
    pub freshness: TrustFreshness,
    pub tokens: TokenCache,
    pub clock: WallClock,
}

impl NodeTrust {
    pub fn new(signer: Signer, account: SharedValue<AccountTrust>, clock: WallClock) -> Self {
        let freshness = TrustFreshness::starting_at(clock.now());
        Self { signer, account, freshness, tokens: TokenCache::default(), clock }
    }

    /// The trust of a service on this host: with its own signer, and the account token of the node.
    #[must_use]
    pub fn for_service(&self, signer: Signer) -> Self {
        Self::new(signer, self.account.share(), self.clock.clone())
    }

    pub fn identity(&self) -> &Identity {
        self.signer.identity()
    }

    /// Replaces the account token if the new one is newer and signed by the operator; invalidates verifications under the old one.
    pub(crate) fn update_account(&self, account_token: &str) -> Result<(), TokenError> {
        let newer = self.account.get().update(account_token)?;
        self.account.set(newer);
        self.tokens.clear();
        Ok(())
    }

    /// The lifetime of the node's own token; `None` if it never expires.
    pub(crate) fn token_life(&self) -> Option<TokenLife> {
        TokenLife::of_claims(&self.signer.claims())
    }

    /// Whether the account lists another key than the one that signed the node's own token: the key is being rotated.
    pub(crate) fn is_signing_key_rotated(&self) -> bool {
        self.account.get().has_other_key(&self.signer.claims().iss)
    }

    /// Uses this token from now on, if the account certifies it in the node's role, and it expires later than the current one or was signed later
    /// with another key of the role. The fleet's enroller or `rpc org push` signs them.
    pub(crate) fn renew_token(&self, token: &str) -> Result<(), NodeTokenRenewalError> {
        let account = self.account.get();
        let renewed = account.verify_user(token, self.clock.now())?;
        // The current token may have expired and then fails verification; its issuer still determines the role. The account does not list the issuer
        // after a rotation of its key; then only a node's token is accepted.
        let role = account.role_of_key(&self.signer.claims().iss).unwrap_or(UserRole::Node);
        if role != renewed.role {
            return Err(NodeTokenRenewalError::Role);
        }
        Ok(self.signer.renew_token(token)?)
    }
}

impl fmt::Debug for NodeTrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeTrust").field("identity", self.identity()).finish_non_exhaustive()
    }
}
