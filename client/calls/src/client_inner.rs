//! State shared by all calls of a client: connection, key, trust and granted agents.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use muster_base::unix_millis_now;
use muster_bus::{Bus, TrustLookupError};
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::sign::Signer;
use muster_wire::subject::AnswerAddress;
use muster_wire::token::scope::request_collectives;
use muster_wire::token::{AccountTrust, PublicKey, TokenCache, UserRole, VerifiedUser};

use crate::discovery::window::DiscoveryWindow;
use crate::error::{ClientError, Result};

/// Maximum age of the account token check when a call begins.
const TRUST_REFRESH_INTERVAL: Duration = Duration::from_mins(5);

#[derive(Debug)]
pub(crate) struct ClientInner {
    pub(crate) bus: Bus,
    pub(crate) signer: Signer,
    pub(crate) trust: RwLock<Arc<AccountTrust>>,
    /// Time of the last check for a newer account token.
    pub(crate) trust_checked: Mutex<Instant>,
    pub(crate) tokens: TokenCache,
    pub(crate) collective: SubjectName,
    pub(crate) window: DiscoveryWindow,
    /// Verified users of nodes that have replied, by identity.
    pub(crate) keys: Mutex<HashMap<Identity, Arc<VerifiedUser>>>,
}

impl ClientInner {
    /// The public key of a node that has replied.
    pub(crate) fn node_key(&self, node: &Identity) -> Option<PublicKey> {
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let known = keys.get(node)?;
        // The token may have been revoked since it was verified.
        let is_valid = self.trust().check_still_valid(known, unix_millis_now()).is_ok();
        is_valid.then_some(known.key)
    }

    /// Records the sender of a reply. A service identity never replaces a node.
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

    /// Adopts the account's newest token, if the fleet's trust bucket holds one. Returns whether there was a newer one.
    pub(crate) async fn refresh_trust(&self) -> Result<bool, TrustLookupError> {
        *self.trust_checked.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        let head = self.bus.account_head().await?;
        let known = self.trust();
        let Some(newer_trust) = self.bus.newer_account(&known, &head).await? else {
            return Ok(false);
        };
        self.set_trust(newer_trust);
        Ok(true)
    }

    /// Refreshes the account token if the last check is older than `TRUST_REFRESH_INTERVAL`, so that a long-running client applies revocations.
    pub(crate) async fn refresh_old_trust(&self) {
        let last = *self.trust_checked.lock().unwrap_or_else(PoisonError::into_inner);
        if last.elapsed() >= TRUST_REFRESH_INTERVAL {
            // The broker itself rejects revoked users, so an unreadable trust bucket does not fail the call.
            let _ = self.refresh_trust().await;
        }
    }

    /// Trusts a newer account token from now on. Tokens verified under the old one are verified again.
    pub(crate) fn set_trust(&self, newer_trust: AccountTrust) {
        let mut trust = self.trust.write().unwrap_or_else(PoisonError::into_inner);
        if newer_trust.issued_at() > trust.issued_at() {
            *trust = Arc::new(newer_trust);
            self.tokens.clear();
        }
    }

    /// Checks that the caller's own token grants this action. The broker rejects others too, but reports it on the connection, not on the call.
    pub(crate) fn check_granted(&self, agent: &SubjectName, action: &SubjectName) -> Result<()> {
        let trust = self.trust();
        let Ok(own_user) = self.tokens.verify_user(&trust, &self.signer.token(), unix_millis_now())
        else {
            return Ok(());
        };
        let granted: Vec<&str> =
            own_user.tags.iter().filter_map(|tag| tag.strip_prefix("agent:")).collect();
        let covers = |grant: &&str| match grant.split_once('.') {
            None => *grant == "*" || *grant == agent.as_str(),
            Some(of_action) => of_action == (agent.as_str(), action.as_str()),
        };
        if own_user.role != UserRole::Caller || granted.iter().any(covers) {
            return Ok(());
        }
        Err(ClientError::NotGranted {
            agent: agent.to_string(),
            action: action.to_string(),
            allowed: granted.join(", "),
        })
    }

    /// Checks that the scope of the caller's token includes the collective. The broker rejects requests in others, but reports it on the connection,
    /// not on the call.
    pub(crate) fn check_collective(&self) -> Result<()> {
        let trust = self.trust();
        let template = trust.template_of_key(&self.signer.claims().iss);
        let known = template.map(request_collectives).unwrap_or_default();
        if known.is_empty() || known.contains(&self.collective.as_str()) {
            return Ok(());
        }
        let known = known.into_iter().map(str::to_owned).collect();
        Err(ClientError::UnknownCollective { collective: self.collective.to_string(), known })
    }

    /// Parses a mailbox name or one of the caller's own subjects. Rejects subjects whose replies other callers could read.
    pub(crate) fn answer_address(&self, name: &str) -> Result<AnswerAddress> {
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
