//! Who asks: a connection, a key, whom it trusts, and what it may ask. Shared by every call of a client.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use muster_bus::{Bus, TrustLookupError};
use muster_wire::Millis;
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::sign::Signer;
use muster_wire::subject::AnswerAddress;
use muster_wire::token::{AccountTrust, PublicKey, TokenCache, UserRole, VerifiedUser};

use crate::discovery::DiscoveryWindow;
use crate::error::ClientError;

/// How old what is known of the account token may be when a call begins.
const TRUST_REFRESH_INTERVAL: Duration = Duration::from_mins(5);

#[derive(Debug)]
pub(crate) struct ClientInner {
    pub(crate) bus: Bus,
    pub(crate) signer: Signer,
    pub(crate) trust: RwLock<Arc<AccountTrust>>,
    /// When the newest account token was last asked for.
    pub(crate) trust_checked: Mutex<Instant>,
    pub(crate) tokens: TokenCache,
    pub(crate) collective: SubjectName,
    pub(crate) window: DiscoveryWindow,
    /// Keys of nodes that have answered, by their tokens.
    pub(crate) keys: Mutex<HashMap<Identity, Arc<VerifiedUser>>>,
}

impl ClientInner {
    /// The key of a node that has answered.
    pub(crate) fn node_key(&self, node: &Identity) -> Option<PublicKey> {
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let known = keys.get(node)?;
        // A token that was revoked since counts no more.
        let good = self.trust().check_still_valid(known, now()).is_ok();
        good.then_some(known.key)
    }

    /// Notes who answered. A service does not take a node's place.
    pub(crate) fn note_sender(&self, sender: &Arc<VerifiedUser>) {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        match keys.get(&sender.identity) {
            Some(known) if known.key == sender.key && known.issued_at >= sender.issued_at => {}
            Some(known) if known.role == UserRole::Node && sender.role != UserRole::Node => {}
            _ => drop(keys.insert(sender.identity.clone(), Arc::clone(sender))),
        }
    }

    pub(crate) fn trust(&self) -> Arc<AccountTrust> {
        Arc::clone(&self.trust.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes over the account's newest token, if the fleet's bucket of trust names one. Returns whether there was a newer one.
    pub(crate) async fn refresh_trust(&self) -> Result<bool, TrustLookupError> {
        self.note_trust_check();
        let head = self.bus.account_head().await?;
        let known = self.trust();
        let Some(newer) = self.bus.newer_account(&known, &head).await? else {
            return Ok(false);
        };
        self.set_trust(newer);
        Ok(true)
    }

    /// The same, if that was not done for a while: a client that runs for hours learns of revocations, too.
    pub(crate) async fn refresh_old_trust(&self) {
        if self.last_trust_check().elapsed() >= TRUST_REFRESH_INTERVAL {
            // The broker itself refuses revoked parties, so a bucket that cannot be read stops no call.
            let _ = self.refresh_trust().await;
        }
    }

    fn last_trust_check(&self) -> Instant {
        *self
            .trust_checked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn note_trust_check(&self) {
        let mut checked = self
            .trust_checked
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *checked = Instant::now();
    }

    /// Trusts a newer account token from now on. What was verified under the old one is verified again.
    pub(crate) fn set_trust(&self, newer: AccountTrust) {
        let mut trust = self.trust.write().unwrap_or_else(PoisonError::into_inner);
        if newer.issued_at() > trust.issued_at() {
            *trust = Arc::new(newer);
            self.tokens.clear();
        }
    }

    /// Whether our own token lets us ask this agent. The broker refuses the rest, but tells the connection, not the call.
    pub(crate) fn check_granted(&self, agent: &SubjectName) -> Result<(), ClientError> {
        let trust = self.trust();
        let Ok(own) = self.tokens.verify_user(&trust, &self.signer.token(), now()) else {
            return Ok(());
        };
        let granted: Vec<&str> = own
            .tags
            .iter()
            .filter_map(|tag| tag.strip_prefix("agent:"))
            .collect();
        let covers =
            |grant: &&str| *grant == "*" || grant.split('.').next() == Some(agent.as_str());
        if own.role != UserRole::Caller || granted.iter().any(covers) {
            return Ok(());
        }
        Err(ClientError::NotGranted {
            agent: agent.to_string(),
            allowed: granted.join(", "),
        })
    }

    /// The address under a name, or under a subject of our own; an error where other callers would read the answers.
    pub(crate) fn answer_address(&self, name: &str) -> Result<AnswerAddress, ClientError> {
        let key = self.signer.public_key().to_string();
        AnswerAddress::of_word(&key, name)
            .or_else(|| {
                let address = AnswerAddress::from_reply_subject(name, &key)?;
                (address.prefix() == name).then_some(address)
            })
            .ok_or_else(|| ClientError::ForeignInbox {
                subject: name.to_owned(),
                inbox: format!("_R.{key}.NAME"),
            })
    }
}

pub(crate) fn now() -> Millis {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}
