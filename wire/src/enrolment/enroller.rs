//! Handles enrolment requests: verifies, decides, counts the use, claims the name, issues the token, and signs the answer.
//!
//! It opens no connection and keeps no state except the trusted accounts: the [`EnrolmentStore`] keeps names and uses.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use super::decide::{
    EnrolmentDecision, KnownName, decide_enrolment, key_revoked_message, name_in_use_message,
    name_taken_message,
};
use super::entry::{NameClaimOutcome, NameEntry};
use super::store::EnrolmentStore;
use crate::Millis;
use crate::enrol::{
    EnrolmentAcceptance, EnrolmentAnswer, EnrolmentDeferral, EnrolmentOutcome, EnrolmentRefusal,
    EnrolmentRefusalReason, sign_enrolment_answer,
};
use crate::enrol::{EnrolmentRequestError, OpenEnrolmentRequest, open_enrolment_request};
use crate::identity::{Identity, SubjectName};
use crate::sign::{EnvelopeSignError, Signer};
use crate::token::claims::UserClaims;
use crate::token::encode::{self, TokenIssueError, TokenValidity};
use crate::token::lifetime::TokenLife;
use crate::token::{AccountTrust, KeyPair, PublicKey, Seconds, TokenCache, TokenError};

/// Retry delay of a node that waits for approval, in milliseconds.
const APPROVAL_RETRY_MILLIS: u64 = 15_000;

/// Settings sent to every enrolled node.
#[derive(Debug, Clone)]
pub struct EnrolmentSettings {
    /// The collectives of the fleet.
    pub collectives: Vec<SubjectName>,
    /// The fleet's broker URLs; if empty, the node keeps its current broker.
    pub urls: Vec<String>,
    /// Lifetime of a node token, at most 90 days; `None` never expires.
    pub lifetime: Option<Seconds>,
    /// Whether enrolled nodes are provisioned further.
    pub provisioning: bool,
}

/// Issues node tokens for machines that request enrolment.
pub struct NodeEnroller<R> {
    newcomers: RwLock<Arc<AccountTrust>>,
    fleet: RwLock<Arc<AccountTrust>>,
    cache: TokenCache,
    service: Signer,
    node_role: KeyPair,
    settings: EnrolmentSettings,
    store: R,
}

impl<R> fmt::Debug for NodeEnroller<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Enroller")
            .field("service", &self.service)
            .field("node_role", &self.node_role)
            .finish_non_exhaustive()
    }
}

/// The result of handling a message.
#[derive(Debug)]
pub enum HandledEnrolment {
    /// Verification failed; no answer is sent.
    Ignored(EnrolmentRequestError),
    /// An answer was made.
    Answered {
        /// The verified request.
        request: Box<OpenEnrolmentRequest>,
        /// The decision.
        outcome: EnrolmentOutcome,
        /// The signed answer.
        bytes: Vec<u8>,
    },
}

/// Errors that prevent an answer.
#[derive(Debug, thiserror::Error)]
pub enum NodeEnrollerError {
    /// The answer cannot be signed.
    #[error("cannot sign the answer to an enrolment request")]
    Sign(#[from] EnvelopeSignError),
    /// The fleet's account does not list the configured key as a signing key of the role node.
    #[error("{0} is not the fleet's signing key of the role node")]
    WrongNodeKey(PublicKey),
}

/// The parts of an enroller.
pub struct NodeEnrollerParts<R> {
    /// The bootstrap account.
    pub newcomers: AccountTrust,
    /// The fleet's account.
    pub fleet: AccountTrust,
    /// The signer of answers: a service of the bootstrap account.
    pub service: Signer,
    /// The fleet's signing key of the role node.
    pub node_role: KeyPair,
    /// The settings sent to enrolled nodes.
    pub settings: EnrolmentSettings,
    /// Stores names and uses.
    pub store: R,
}

impl<R> fmt::Debug for NodeEnrollerParts<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").finish_non_exhaustive()
    }
}

impl<R: EnrolmentStore> NodeEnroller<R> {
    /// Creates an enroller. An unusable node signing key fails here rather than at the first request.
    pub fn new(parts: NodeEnrollerParts<R>) -> Result<Self, NodeEnrollerError> {
        let key = parts.node_role.public_key();
        if parts.fleet.role_of_key(&key) != Some(crate::token::UserRole::Node) {
            return Err(NodeEnrollerError::WrongNodeKey(key));
        }
        Ok(Self {
            newcomers: RwLock::new(Arc::new(parts.newcomers)),
            fleet: RwLock::new(Arc::new(parts.fleet)),
            cache: TokenCache::default(),
            service: parts.service,
            node_role: parts.node_role,
            settings: parts.settings,
            store: parts.store,
        })
    }

    /// The name in the signer's token.
    pub fn identity(&self) -> &Identity {
        self.service.identity()
    }

    /// Stores names and uses.
    pub fn enrolment_store(&self) -> &R {
        &self.store
    }

    /// The fleet's account token in use.
    pub fn fleet_trust(&self) -> Arc<AccountTrust> {
        current_trust(&self.fleet)
    }

    /// Lifetime of a node token; `None` never expires.
    pub fn token_lifetime(&self) -> Option<Seconds> {
        self.settings.lifetime
    }

    /// The key that signs node tokens.
    pub fn node_role(&self) -> &KeyPair {
        &self.node_role
    }

    /// Replaces the bootstrap account's token with a newer one, including its revocations.
    pub fn update_newcomers(&self, token: &str) -> Result<(), TokenError> {
        update_trust(&self.newcomers, token)
    }

    /// Replaces the fleet's account token with a newer one; enrolled nodes receive the newest.
    pub fn update_fleet(&self, token: &str) -> Result<(), TokenError> {
        update_trust(&self.fleet, token)
    }

    /// Handles a message received on [`crate::subject::ENROLMENT_SUBJECT`].
    pub async fn handle_message(
        &self,
        bytes: &[u8],
        now: Millis,
    ) -> Result<HandledEnrolment, NodeEnrollerError> {
        let newcomers = current_trust(&self.newcomers);
        let opened = match open_enrolment_request(bytes, &newcomers, &self.cache, now) {
            Ok(opened) => opened,
            Err(error) => return Ok(HandledEnrolment::Ignored(error)),
        };
        let outcome = self.process_request(&opened, now).await.unwrap_or_else(|error| {
            let problem = "the provisioner failed to process the request; try again";
            refusal_outcome(EnrolmentRefusalReason::Trouble, format!("{problem}: {error}"))
        });
        let answer = EnrolmentAnswer {
            nonce: opened.request.nonce,
            key: opened.request.key,
            time: now,
            outcome,
        };
        let bytes = sign_enrolment_answer(&answer, &self.service)?;
        Ok(HandledEnrolment::Answered { request: Box::new(opened), outcome: answer.outcome, bytes })
    }

    /// Counts the use before claiming the name: a machine that crashes between the two and retries is counted once.
    async fn process_request(
        &self,
        opened: &OpenEnrolmentRequest,
        now: Millis,
    ) -> Result<EnrolmentOutcome, R::Error> {
        let request = &opened.request;
        if let Some(account) = self.store.fleet_account().await? {
            // A token that is not newer, or not the operator's, is ignored.
            let _ = self.update_fleet(&account);
        }
        let holder = self.store.find_holder(&request.identity).await?;
        let approval = self.store.check_approval(opened).await?;
        let known = KnownName {
            entry: holder.as_ref(),
            is_key_revoked: current_trust(&self.fleet).has_revocation(&request.key),
        };
        match decide_enrolment(opened, known, &approval, now) {
            EnrolmentDecision::Refuse(reason, message) => {
                return Ok(refusal_outcome(reason, message));
            }
            EnrolmentDecision::Wait(message) => {
                let retry_after_ms = APPROVAL_RETRY_MILLIS;
                return Ok(EnrolmentOutcome::Wait(EnrolmentDeferral { message, retry_after_ms }));
            }
            EnrolmentDecision::Issue => {}
        }
        // A returning machine holds the name already, so the check for a connected node of that name is skipped.
        let is_returning = holder.as_ref().is_some_and(|entry| entry.is_held_by(request.key));
        if !is_returning && self.store.is_name_in_use(&request.identity, holder.is_some()).await? {
            let message = name_in_use_message(&request.identity);
            return Ok(refusal_outcome(EnrolmentRefusalReason::NameTaken, message));
        }
        let entry = NameEntry {
            identity: request.identity.clone(),
            key: request.key,
            credential: Some(opened.sender.key),
            at: now,
            released: false,
            revoked: false,
            former: Vec::new(),
        };
        if let Some(limit) = opened.grant.uses
            && !self.store.count_use(&entry, limit).await?
        {
            let message = format!("the bootstrap token has reached its limit of {limit} uses");
            return Ok(refusal_outcome(EnrolmentRefusalReason::UsedUp, message));
        }
        match self.store.claim_name(&entry).await? {
            NameClaimOutcome::Claimed | NameClaimOutcome::AlreadyClaimed => {}
            NameClaimOutcome::Taken(_) => {
                let message = name_taken_message(&request.identity);
                return Ok(refusal_outcome(EnrolmentRefusalReason::NameTaken, message));
            }
            NameClaimOutcome::Revoked => {
                let message = key_revoked_message(request);
                return Ok(refusal_outcome(EnrolmentRefusalReason::Revoked, message));
            }
        }
        Ok(match self.issue_acceptance(opened, now) {
            Ok(acceptance) => EnrolmentOutcome::Welcome(Box::new(acceptance)),
            Err(error) => refusal_outcome(
                EnrolmentRefusalReason::Trouble,
                format!("cannot issue a token: {error}"),
            ),
        })
    }

    fn issue_acceptance(
        &self,
        opened: &OpenEnrolmentRequest,
        now: Millis,
    ) -> Result<EnrolmentAcceptance, TokenIssueError> {
        let fleet = current_trust(&self.fleet);
        let request = &opened.request;
        let lifetime = self.settings.lifetime;
        let token = issue_node_token(
            &request.identity,
            request.key,
            fleet.account_key(),
            lifetime.map(|lifetime| TokenLife::from_now(lifetime, now)),
            &self.node_role,
            now,
        )?;
        Ok(EnrolmentAcceptance {
            identity: request.identity.clone(),
            token,
            account: fleet.account_token().to_owned(),
            collectives: self.settings.collectives.clone(),
            urls: self.settings.urls.clone(),
            facts: opened.grant.facts.clone(),
            provisioning: self.settings.provisioning,
        })
    }
}

/// Signs a node token with the role's signing key.
pub fn issue_node_token(
    name: &Identity,
    key: PublicKey,
    account: PublicKey,
    life: Option<TokenLife>,
    node_role: &KeyPair,
    now: Millis,
) -> Result<String, TokenIssueError> {
    let validity = TokenValidity { issued_at: now / 1000, expires: life.map(|life| life.expires) };
    encode::issue_user_token(name, key, UserClaims::new(account, Vec::new()), validity, node_role)
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
