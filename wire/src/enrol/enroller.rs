//! Answers wishes to be enrolled: believes, decides, takes name and use, issues, and seals the answer.
//!
//! It opens no connection and keeps no state but whom it trusts: the [`EnrolmentStore`] keeps names and uses.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use super::answer::{
    EnrolmentAcceptance, EnrolmentAnswer, EnrolmentDeferral, EnrolmentOutcome, EnrolmentRefusal,
    EnrolmentRefusalReason, sign_enrolment_answer,
};
use super::decide::{
    EnrolmentDecision, KnownName, decide_enrolment, key_revoked_message, name_in_use_message,
    name_taken_message,
};
use super::entry::{NameClaimOutcome, NameEntry};
use super::request::{EnrolmentRequestError, OpenEnrolmentRequest, open_enrolment_request};
use super::store::EnrolmentStore;
use crate::Millis;
use crate::identity::{Identity, SubjectName};
use crate::sign::{EnvelopeSignError, Signer};
use crate::token::claims::UserClaims;
use crate::token::encode::{self, TokenIssueError, TokenValidity};
use crate::token::lifetime::TokenLife;
use crate::token::{AccountTrust, KeyPair, PublicKey, Seconds, TokenCache, TokenError};

/// How long somebody waits who needs another's agreement, in milliseconds.
const APPROVAL_RETRY_MILLIS: u64 = 15_000;

/// What every node that comes in is told.
#[derive(Debug, Clone)]
pub struct EnrolmentSettings {
    /// The collectives of the fleet.
    pub collectives: Vec<SubjectName>,
    /// Where the fleet's broker is; empty for where the newcomer is already.
    pub urls: Vec<String>,
    /// How long a node's token is valid, at most 90 days; nothing for ever.
    pub lifetime: Option<Seconds>,
    /// Whether nodes come in to be provisioned further.
    pub provisioning: bool,
}

/// Whoever may make nodes of machines.
pub struct NodeEnroller<R> {
    newcomers: RwLock<Arc<AccountTrust>>,
    fleet: RwLock<Arc<AccountTrust>>,
    cache: TokenCache,
    service: Signer,
    node_role: KeyPair,
    offer: EnrolmentSettings,
    roll: R,
}

impl<R> fmt::Debug for NodeEnroller<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Enroller")
            .field("service", &self.service)
            .field("node_role", &self.node_role)
            .finish_non_exhaustive()
    }
}

/// What came of a message.
#[derive(Debug)]
pub enum HandledEnrolment {
    /// It is not believed, and not answered.
    Ignored(EnrolmentRequestError),
    /// It was answered with these bytes.
    Answered {
        /// The wish.
        wish: Box<OpenEnrolmentRequest>,
        /// What was decided.
        outcome: EnrolmentOutcome,
        /// The sealed answer.
        bytes: Vec<u8>,
    },
}

/// Why somebody could not be answered at all.
#[derive(Debug, thiserror::Error)]
pub enum NodeEnrollerError {
    /// The answer cannot be sealed.
    #[error("the answer to a newcomer cannot be sealed")]
    Seal(#[from] EnvelopeSignError),
    /// The fleet's account does not list the key that should sign nodes, or not for nodes.
    #[error("{0} is not the fleet's key for signing nodes")]
    NotTheNodeKey(PublicKey),
}

/// What an enroller is made of.
pub struct NodeEnrollerParts<R> {
    /// The newcomers' account.
    pub newcomers: AccountTrust,
    /// The fleet's account.
    pub fleet: AccountTrust,
    /// Who answers: a service of the newcomers' account.
    pub service: Signer,
    /// The fleet's signing key of the role node.
    pub node_role: KeyPair,
    /// What newcomers are told.
    pub offer: EnrolmentSettings,
    /// Names and uses.
    pub roll: R,
}

impl<R> fmt::Debug for NodeEnrollerParts<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").finish_non_exhaustive()
    }
}

impl<R: EnrolmentStore> NodeEnroller<R> {
    /// Puts one together. A key that does not sign nodes of the fleet is found here, and not by the first newcomer.
    pub fn new(parts: NodeEnrollerParts<R>) -> Result<Self, NodeEnrollerError> {
        let key = parts.node_role.public_key();
        if parts.fleet.role_of_key(&key) != Some(crate::token::UserRole::Node) {
            return Err(NodeEnrollerError::NotTheNodeKey(key));
        }
        Ok(Self {
            newcomers: RwLock::new(Arc::new(parts.newcomers)),
            fleet: RwLock::new(Arc::new(parts.fleet)),
            cache: TokenCache::default(),
            service: parts.service,
            node_role: parts.node_role,
            offer: parts.offer,
            roll: parts.roll,
        })
    }

    /// The name under which it answers.
    pub fn identity(&self) -> &Identity {
        self.service.identity()
    }

    /// Names and uses.
    pub fn enrolment_store(&self) -> &R {
        &self.roll
    }

    /// The fleet's account token that it goes by.
    pub fn fleet_trust(&self) -> Arc<AccountTrust> {
        current_trust(&self.fleet)
    }

    /// How long the token of a node is valid; `None` for ever.
    pub fn token_lifetime(&self) -> Option<Seconds> {
        self.offer.lifetime
    }

    /// The key that signs nodes.
    pub fn node_role(&self) -> &KeyPair {
        &self.node_role
    }

    /// Takes over a newer token of the newcomers' account, with its revocations.
    pub fn update_newcomers(&self, token: &str) -> Result<(), TokenError> {
        update_trust(&self.newcomers, token)
    }

    /// Takes over a newer token of the fleet's account: newcomers are given the newest.
    pub fn update_fleet(&self, token: &str) -> Result<(), TokenError> {
        update_trust(&self.fleet, token)
    }

    /// Answers a message that came on [`crate::subject::ENROLMENT_SUBJECT`].
    pub async fn handle_message(
        &self,
        bytes: &[u8],
        now: Millis,
    ) -> Result<HandledEnrolment, NodeEnrollerError> {
        let wish = match open_enrolment_request(
            bytes,
            &current_trust(&self.newcomers),
            &self.cache,
            now,
        ) {
            Ok(wish) => wish,
            Err(error) => return Ok(HandledEnrolment::Ignored(error)),
        };
        let outcome = self
            .process_request(&wish, now)
            .await
            .unwrap_or_else(|error| {
                let message = format!("the service could not decide, ask again: {error}");
                refusal_outcome(EnrolmentRefusalReason::Trouble, message)
            });
        let answer = EnrolmentAnswer {
            nonce: wish.hello.nonce,
            key: wish.hello.key,
            time: now,
            outcome,
        };
        let bytes = sign_enrolment_answer(&answer, &self.service)?;
        Ok(HandledEnrolment::Answered {
            wish: Box::new(wish),
            outcome: answer.outcome,
            bytes,
        })
    }

    /// The use is taken before the name: whoever dies between the two, and comes again, is counted once.
    async fn process_request(
        &self,
        wish: &OpenEnrolmentRequest,
        now: Millis,
    ) -> Result<EnrolmentOutcome, R::Error> {
        let hello = &wish.hello;
        if let Some(account) = self.roll.fleet_account().await? {
            // One that is not newer, or not the operator's, changes nothing.
            let _ = self.update_fleet(&account);
        }
        let holder = self.roll.find_holder(&hello.identity).await?;
        let approval = self.roll.check_approval(wish).await?;
        let known = KnownName {
            entry: holder.as_ref(),
            is_key_revoked: current_trust(&self.fleet).has_revocation(&hello.key),
        };
        match decide_enrolment(wish, known, &approval, now) {
            EnrolmentDecision::Refuse(reason, message) => {
                return Ok(refusal_outcome(reason, message));
            }
            EnrolmentDecision::Wait(message) => {
                return Ok(EnrolmentOutcome::Wait(EnrolmentDeferral {
                    message,
                    retry_after_ms: APPROVAL_RETRY_MILLIS,
                }));
            }
            EnrolmentDecision::Issue => {}
        }
        // A machine that comes back has the name, and is not asked whether it is connected.
        let comes_back = holder
            .as_ref()
            .is_some_and(|held| held.is_held_by(hello.key));
        if !comes_back
            && self
                .roll
                .is_name_in_use(&hello.identity, holder.is_some())
                .await?
        {
            return Ok(refusal_outcome(
                EnrolmentRefusalReason::NameTaken,
                name_in_use_message(&hello.identity),
            ));
        }
        let life = self.offer.lifetime;
        let entry = NameEntry {
            identity: hello.identity.clone(),
            key: hello.key,
            credential: Some(wish.sender.key),
            at: now,
            life: life.map(|lifetime| TokenLife::from_now(lifetime, now)),
            released: false,
            revoked: false,
            former: Vec::new(),
        };
        if let Some(limit) = wish.ticket.uses
            && !self.roll.count_use(&entry, limit).await?
        {
            let message =
                format!("the bootstrap token has let in {limit} already, as many as it may");
            return Ok(refusal_outcome(EnrolmentRefusalReason::UsedUp, message));
        }
        match self.roll.claim_name(&entry).await? {
            NameClaimOutcome::Now | NameClaimOutcome::Before => {}
            NameClaimOutcome::Taken(_) => {
                return Ok(refusal_outcome(
                    EnrolmentRefusalReason::NameTaken,
                    name_taken_message(&hello.identity),
                ));
            }
            NameClaimOutcome::Revoked => {
                return Ok(refusal_outcome(
                    EnrolmentRefusalReason::Revoked,
                    key_revoked_message(hello),
                ));
            }
        }
        Ok(match self.issue_acceptance(wish, entry.life, now) {
            Ok(welcome) => EnrolmentOutcome::Welcome(Box::new(welcome)),
            Err(error) => refusal_outcome(
                EnrolmentRefusalReason::Trouble,
                format!("no token could be issued: {error}"),
            ),
        })
    }

    fn issue_acceptance(
        &self,
        wish: &OpenEnrolmentRequest,
        life: Option<TokenLife>,
        now: Millis,
    ) -> Result<EnrolmentAcceptance, TokenIssueError> {
        let fleet = current_trust(&self.fleet);
        let hello = &wish.hello;
        let token = issue_node_token(
            &hello.identity,
            hello.key,
            fleet.account_key(),
            life,
            &self.node_role,
            now,
        )?;
        Ok(EnrolmentAcceptance {
            identity: hello.identity.clone(),
            token,
            account: fleet.account_token().to_owned(),
            collectives: self.offer.collectives.clone(),
            urls: self.offer.urls.clone(),
            facts: wish.ticket.facts.clone(),
            provisioning: self.offer.provisioning,
        })
    }
}

/// Signs a node's token with the key of that role.
pub fn issue_node_token(
    name: &Identity,
    key: PublicKey,
    account: PublicKey,
    life: Option<TokenLife>,
    node_role: &KeyPair,
    now: Millis,
) -> Result<String, TokenIssueError> {
    let validity = TokenValidity {
        issued_at: now / 1000,
        expires: life.map(|life| life.expires),
    };
    encode::issue_user_token(
        name,
        key,
        UserClaims::new(account, Vec::new()),
        validity,
        node_role,
    )
}

fn refusal_outcome(reason: EnrolmentRefusalReason, message: String) -> EnrolmentOutcome {
    EnrolmentOutcome::Refused(EnrolmentRefusal { reason, message })
}

fn current_trust(trust: &RwLock<Arc<AccountTrust>>) -> Arc<AccountTrust> {
    Arc::clone(&trust.read().unwrap_or_else(PoisonError::into_inner))
}

fn update_trust(trust: &RwLock<Arc<AccountTrust>>, token: &str) -> Result<(), TokenError> {
    let mut trust = trust.write().unwrap_or_else(PoisonError::into_inner);
    *trust = Arc::new(trust.update(token)?);
    Ok(())
}
