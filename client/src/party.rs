//! Who asks: a connection, a key, whom it trusts, and what it may ask. Shared by every call of a client.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use muster_bus::Bus;
use muster_wire::Millis;
use muster_wire::identity::{Identity, Name};
use muster_wire::sign::Signer;
use muster_wire::subject;
use muster_wire::token::{PublicKey, Role, TokenCache, Trust, Verified};

use crate::discovery::Window;
use crate::error::ClientError;

#[derive(Debug)]
pub(crate) struct Party {
    pub(crate) bus: Bus,
    pub(crate) signer: Signer,
    pub(crate) trust: RwLock<Arc<Trust>>,
    pub(crate) tokens: TokenCache,
    pub(crate) collective: Name,
    pub(crate) window: Window,
    /// Keys of nodes that have answered, by their tokens.
    pub(crate) keys: Mutex<HashMap<Identity, Arc<Verified>>>,
}

impl Party {
    /// The key of a node that has answered.
    pub(crate) fn key(&self, node: &Identity) -> Option<PublicKey> {
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let known = keys.get(node)?;
        // A token that was revoked since counts no more.
        let good = self.trust().still_good(known, now()).is_ok();
        good.then_some(known.key)
    }

    /// Notes who answered. A service does not take a node's place.
    pub(crate) fn note(&self, sender: &Arc<Verified>) {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        match keys.get(&sender.identity) {
            Some(known) if known.key == sender.key => {}
            Some(known) if known.role == Role::Node && sender.role != Role::Node => {}
            _ => drop(keys.insert(sender.identity.clone(), Arc::clone(sender))),
        }
    }

    pub(crate) fn trust(&self) -> Arc<Trust> {
        Arc::clone(&self.trust.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether our own token lets us ask this agent. The broker refuses the rest, but tells the connection, not the call.
    pub(crate) fn check_granted(&self, agent: &Name) -> Result<(), ClientError> {
        let trust = self.trust();
        let Ok(own) = self.tokens.verify_user(&trust, self.signer.token(), now()) else {
            return Ok(());
        };
        let granted: Vec<&str> = own
            .tags
            .iter()
            .filter_map(|tag| tag.strip_prefix("agent:"))
            .collect();
        let covers =
            |grant: &&str| *grant == "*" || grant.split('.').next() == Some(agent.as_str());
        if own.role != Role::Caller || granted.iter().any(covers) {
            return Ok(());
        }
        Err(ClientError::NotGranted {
            agent: agent.to_string(),
            allowed: granted.join(", "),
        })
    }

    /// Whether a subject is where only we may read, and where nodes will answer us.
    pub(crate) fn check_own_inbox(&self, subject: &str) -> Result<(), ClientError> {
        let inbox = subject::inbox_prefix(&self.signer.public().to_string());
        let below = subject
            .strip_prefix(&inbox)
            .and_then(|rest| rest.strip_prefix('.'));
        let plain = |token: &str| {
            let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
            !token.is_empty() && token.bytes().all(allowed)
        };
        if below.is_some_and(|rest| rest.split('.').all(plain)) {
            return Ok(());
        }
        Err(ClientError::ForeignInbox {
            subject: subject.to_owned(),
            inbox: format!("{inbox}.>"),
        })
    }
}

pub(crate) fn now() -> Millis {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}
