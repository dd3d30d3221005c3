//! Answers wishes to be enrolled: believes, decides, takes name and use, issues, and seals the answer.
//!
//! It opens no connection and keeps no state but whom it trusts: the [`Roll`] keeps names and uses.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use super::answer::{Answer, Outcome, Reason, Refused, Wait, Welcome, seal_answer};
use super::decide::{Decision, KnownName, decide, in_use, revoked, taken};
use super::entry::{Claimed, Entry};
use super::hello::{HelloError, OpenHello, open_hello};
use super::roll::Roll;
use crate::Millis;
use crate::identity::{Identity, Name};
use crate::sign::{SealError, Signer};
use crate::token::claims::User;
use crate::token::encode::{self, IssueError, Validity};
use crate::token::life::TokenLife;
use crate::token::{KeyPair, PublicKey, Seconds, TokenCache, TokenError, Trust};

/// How long somebody waits who needs another's agreement, in milliseconds.
const AGREEMENT_MILLIS: u64 = 15_000;

/// What every node that comes in is told.
#[derive(Debug, Clone)]
pub struct Offer {
    /// The collectives of the fleet.
    pub collectives: Vec<Name>,
    /// Where the fleet's broker is; empty for where the newcomer is already.
    pub urls: Vec<String>,
    /// How long a node's token is valid, at most 90 days; nothing for ever.
    pub lifetime: Option<Seconds>,
    /// Whether nodes come in to be provisioned further.
    pub provisioning: bool,
}

/// Whoever may make nodes of machines.
pub struct Enroller<R> {
    newcomers: RwLock<Arc<Trust>>,
    fleet: RwLock<Arc<Trust>>,
    cache: TokenCache,
    service: Signer,
    node_role: KeyPair,
    offer: Offer,
    roll: R,
}

impl<R> fmt::Debug for Enroller<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Enroller")
            .field("service", &self.service)
            .field("node_role", &self.node_role)
            .finish_non_exhaustive()
    }
}

/// What came of a message.
#[derive(Debug)]
pub enum Handled {
    /// It is not believed, and not answered.
    Ignored(HelloError),
    /// It was answered with these bytes.
    Answered {
        /// The wish.
        wish: Box<OpenHello>,
        /// What was decided.
        outcome: Outcome,
        /// The sealed answer.
        bytes: Vec<u8>,
    },
}

/// Why somebody could not be answered at all.
#[derive(Debug, thiserror::Error)]
pub enum EnrolError {
    /// The answer cannot be sealed.
    #[error("the answer to a newcomer cannot be sealed")]
    Seal(#[from] SealError),
    /// The fleet's account does not list the key that should sign nodes, or not for nodes.
    #[error("{0} is not the fleet's key for signing nodes")]
    NotTheNodeKey(PublicKey),
}

/// What an enroller is made of.
pub struct Parts<R> {
    /// The newcomers' account.
    pub newcomers: Trust,
    /// The fleet's account.
    pub fleet: Trust,
    /// Who answers: a service of the newcomers' account.
    pub service: Signer,
    /// The fleet's signing key of the role node.
    pub node_role: KeyPair,
    /// What newcomers are told.
    pub offer: Offer,
    /// Names and uses.
    pub roll: R,
}

impl<R> fmt::Debug for Parts<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").finish_non_exhaustive()
    }
}

impl<R: Roll> Enroller<R> {
    /// Puts one together. A key that does not sign nodes of the fleet is found here, and not by the first newcomer.
    pub fn new(parts: Parts<R>) -> Result<Self, EnrolError> {
        let key = parts.node_role.public();
        if parts.fleet.role(&key) != Some(crate::token::Role::Node) {
            return Err(EnrolError::NotTheNodeKey(key));
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
    pub fn roll(&self) -> &R {
        &self.roll
    }

    /// The fleet's account token that it goes by.
    pub fn fleet(&self) -> Arc<Trust> {
        current(&self.fleet)
    }

    /// How long the token of a node is valid; `None` for ever.
    pub fn lifetime(&self) -> Option<Seconds> {
        self.offer.lifetime
    }

    /// The key that signs nodes.
    pub fn node_role(&self) -> &KeyPair {
        &self.node_role
    }

    /// Takes over a newer token of the newcomers' account, with its revocations.
    pub fn update_newcomers(&self, token: &str) -> Result<(), TokenError> {
        update(&self.newcomers, token)
    }

    /// Takes over a newer token of the fleet's account: newcomers are given the newest.
    pub fn update_fleet(&self, token: &str) -> Result<(), TokenError> {
        update(&self.fleet, token)
    }

    /// Answers a message that came on [`crate::subject::ENROL`].
    pub async fn handle(&self, bytes: &[u8], now: Millis) -> Result<Handled, EnrolError> {
        let wish = match open_hello(bytes, &current(&self.newcomers), &self.cache, now) {
            Ok(wish) => wish,
            Err(error) => return Ok(Handled::Ignored(error)),
        };
        let outcome = self.outcome(&wish, now).await.unwrap_or_else(|error| {
            let message = format!("the service could not decide, ask again: {error}");
            refused(Reason::Trouble, message)
        });
        let answer = Answer {
            nonce: wish.hello.nonce,
            key: wish.hello.key,
            time: now,
            outcome,
        };
        let bytes = seal_answer(&answer, &self.service)?;
        Ok(Handled::Answered {
            wish: Box::new(wish),
            outcome: answer.outcome,
            bytes,
        })
    }

    /// The use is taken before the name: whoever dies between the two, and comes again, is counted once.
    async fn outcome(&self, wish: &OpenHello, now: Millis) -> Result<Outcome, R::Error> {
        let hello = &wish.hello;
        if let Some(account) = self.roll.fleet_account().await? {
            // One that is not newer, or not the operator's, changes nothing.
            let _ = self.update_fleet(&account);
        }
        let holder = self.roll.holder(&hello.identity).await?;
        let approval = self.roll.approval(wish).await?;
        let known = KnownName {
            entry: holder.as_ref(),
            is_key_revoked: current(&self.fleet).has_revocation(&hello.key),
        };
        match decide(wish, known, &approval, now) {
            Decision::Refuse(reason, message) => return Ok(refused(reason, message)),
            Decision::Wait(message) => {
                return Ok(Outcome::Wait(Wait {
                    message,
                    retry_after_ms: AGREEMENT_MILLIS,
                }));
            }
            Decision::Issue => {}
        }
        // A machine that comes back has the name, and is not asked whether it is connected.
        let comes_back = holder
            .as_ref()
            .is_some_and(|held| held.is_held_by(hello.key));
        if !comes_back
            && self
                .roll
                .is_in_use(&hello.identity, holder.is_some())
                .await?
        {
            return Ok(refused(Reason::NameTaken, in_use(&hello.identity)));
        }
        let life = self.offer.lifetime;
        let entry = Entry {
            identity: hello.identity.clone(),
            key: hello.key,
            credential: Some(wish.sender.key),
            at: now,
            life: life.map(|lifetime| TokenLife::beginning(lifetime, now)),
            released: false,
            revoked: false,
            former: Vec::new(),
        };
        if let Some(limit) = wish.ticket.uses
            && !self.roll.take_use(&entry, limit).await?
        {
            let message =
                format!("the bootstrap token has let in {limit} already, as many as it may");
            return Ok(refused(Reason::UsedUp, message));
        }
        match self.roll.claim(&entry).await? {
            Claimed::Now | Claimed::Before => {}
            Claimed::Taken(_) => return Ok(refused(Reason::NameTaken, taken(&hello.identity))),
            Claimed::Revoked => return Ok(refused(Reason::Revoked, revoked(hello))),
        }
        Ok(match self.welcome(wish, entry.life, now) {
            Ok(welcome) => Outcome::Welcome(Box::new(welcome)),
            Err(error) => refused(
                Reason::Trouble,
                format!("no token could be issued: {error}"),
            ),
        })
    }

    fn welcome(
        &self,
        wish: &OpenHello,
        life: Option<TokenLife>,
        now: Millis,
    ) -> Result<Welcome, IssueError> {
        let fleet = current(&self.fleet);
        let hello = &wish.hello;
        let token = issue(
            &hello.identity,
            hello.key,
            fleet.account(),
            life,
            &self.node_role,
            now,
        )?;
        Ok(Welcome {
            identity: hello.identity.clone(),
            token,
            account: fleet.token().to_owned(),
            collectives: self.offer.collectives.clone(),
            urls: self.offer.urls.clone(),
            facts: wish.ticket.facts.clone(),
            provisioning: self.offer.provisioning,
        })
    }
}

/// Signs a node's token with the key of that role.
pub fn issue(
    name: &Identity,
    key: PublicKey,
    account: PublicKey,
    life: Option<TokenLife>,
    node_role: &KeyPair,
    now: Millis,
) -> Result<String, IssueError> {
    let validity = Validity {
        issued_at: now / 1000,
        expires: life.map(|life| life.expires),
    };
    encode::user(
        name,
        key,
        User::new(account, Vec::new()),
        validity,
        node_role,
    )
}

fn refused(reason: Reason, message: String) -> Outcome {
    Outcome::Refused(Refused { reason, message })
}

fn current(trust: &RwLock<Arc<Trust>>) -> Arc<Trust> {
    Arc::clone(&trust.read().unwrap_or_else(PoisonError::into_inner))
}

fn update(trust: &RwLock<Arc<Trust>>, token: &str) -> Result<(), TokenError> {
    let mut trust = trust.write().unwrap_or_else(PoisonError::into_inner);
    *trust = Arc::new(trust.update(token)?);
    Ok(())
}
