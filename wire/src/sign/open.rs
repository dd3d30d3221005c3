//! Opens requests and replies: a proven sender in the right role, who says what the surroundings say.
//!
//! Not here: age and replay ([`crate::fresh`]), whether a filter matches ([`crate::filter`]), and whether this node is
//! among those that are named, which the daemon's matching stage asks.

use std::sync::Arc;

use uuid::Uuid;

use super::{Envelope, Kind, Opened, Refusal, verify_many};
use crate::Millis;
use crate::identity::{Identity, Name};
use crate::progress::Progress;
use crate::reply::Reply;
use crate::request::Request;
use crate::subject::Address;
use crate::token::{Role, TokenCache, Trust, Verified};

/// Who may ask.
pub const REQUESTERS: [Role; 2] = [Role::Caller, Role::Service];

/// Who may answer.
pub const REPLIERS: [Role; 2] = [Role::Node, Role::Service];

/// A request of a proven caller, as its subject says.
#[derive(Debug, Clone)]
pub struct OpenRequest {
    /// What is asked.
    pub request: Request,
    /// Who asks.
    pub caller: Arc<Verified>,
}

/// A reply of a proven node to what was asked.
#[derive(Debug, Clone)]
pub struct OpenReply {
    /// The answer.
    pub reply: Reply,
    /// Who answers.
    pub sender: Arc<Verified>,
}

/// What a reply must answer.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    /// The request's id; any, for whoever waits for answers to what somebody else has sent.
    pub request: Option<Uuid>,
    /// The agent that was asked.
    pub agent: &'a Name,
    /// The action that was asked.
    pub action: &'a Name,
}

/// Opens a request that came in on this subject.
///
/// A request on one node's subject must name that node: a filter would be somebody's broadcast, moved.
pub fn open_request(
    bytes: &[u8],
    subject: &Address,
    trust: &Trust,
    cache: &TokenCache,
    now: Millis,
) -> Result<OpenRequest, Refusal> {
    let envelope = Envelope::decode(Kind::Request, bytes)?;
    let opened = envelope.verify(trust, cache, now, &REQUESTERS)?;
    let caller = opened.sender;
    let request = Request::decode(opened.body).map_err(|source| Refusal::Request {
        sender: caller.identity.clone(),
        source,
    })?;
    if request.caller != caller.identity {
        let (sender, claimed) = (caller.identity.clone(), request.caller);
        return Err(Refusal::WrongSender { sender, claimed });
    }
    if let Some(field) = contradiction(&request, subject) {
        return Err(Refusal::SubjectMismatch {
            sender: caller.identity.clone(),
            field,
        });
    }
    Ok(OpenRequest { request, caller })
}

/// The first field in which subject and body disagree.
fn contradiction(request: &Request, subject: &Address) -> Option<&'static str> {
    let node = subject.node.as_ref();
    let named = |node| {
        request
            .target
            .nodes()
            .is_some_and(|nodes| nodes.contains(node))
    };
    if request.collective != subject.collective {
        Some("collective")
    } else if request.agent != subject.agent {
        Some("agent")
    } else if request.action != subject.action {
        Some("action")
    } else if !node.is_none_or(named) {
        Some("node")
    } else {
        None
    }
}

/// Opens one reply.
pub fn open_reply(
    bytes: &[u8],
    expected: &Expected<'_>,
    trust: &Trust,
    cache: &TokenCache,
    now: Millis,
) -> Result<OpenReply, Refusal> {
    let envelope = Envelope::decode(Kind::Reply, bytes)?;
    reply(envelope.verify(trust, cache, now, &REPLIERS)?, expected)
}

/// Opens many replies together, at about a third of the cost; the results are in their order.
pub fn open_replies<M: AsRef<[u8]>>(
    messages: &[M],
    expected: &Expected<'_>,
    trust: &Trust,
    cache: &TokenCache,
    now: Millis,
) -> Vec<Result<OpenReply, Refusal>> {
    verify_many(Kind::Reply, messages, trust, cache, now, &REPLIERS)
        .into_iter()
        .map(|opened| reply(opened?, expected))
        .collect()
}

fn reply(opened: Opened<'_>, expected: &Expected<'_>) -> Result<OpenReply, Refusal> {
    let sender = opened.sender;
    let reply = Reply::decode(opened.body).map_err(|source| Refusal::Reply {
        sender: sender.identity.clone(),
        source,
    })?;
    let asked = (reply.request, &reply.agent, &reply.action);
    expected.check(&sender, &reply.sender, asked)?;
    Ok(OpenReply { reply, sender })
}

/// Opens progress messages together, as [`open_replies`] does with replies; the results are in their order.
pub fn open_progress<M: AsRef<[u8]>>(
    messages: &[M],
    expected: &Expected<'_>,
    trust: &Trust,
    cache: &TokenCache,
    now: Millis,
) -> Vec<Result<Progress, Refusal>> {
    verify_many(Kind::Progress, messages, trust, cache, now, &REPLIERS)
        .into_iter()
        .map(|opened| progress(opened?, expected))
        .collect()
}

fn progress(opened: Opened<'_>, expected: &Expected<'_>) -> Result<Progress, Refusal> {
    let sender = opened.sender;
    let progress = Progress::decode(opened.body).map_err(|source| Refusal::Progress {
        sender: sender.identity.clone(),
        source,
    })?;
    let asked = (progress.request, &progress.agent, &progress.action);
    expected.check(&sender, &progress.sender, asked)?;
    Ok(progress)
}

impl Expected<'_> {
    /// Whether this proven sender speaks for itself, and of what was asked.
    fn check(
        &self,
        sender: &Verified,
        claimed: &Identity,
        (request, agent, action): (Uuid, &Name, &Name),
    ) -> Result<(), Refusal> {
        if *claimed != sender.identity {
            return Err(Refusal::WrongSender {
                sender: sender.identity.clone(),
                claimed: claimed.clone(),
            });
        }
        let other = self.request.is_some_and(|expected| expected != request);
        if other || agent != self.agent || action != self.action {
            return Err(Refusal::OtherRequest {
                sender: sender.identity.clone(),
                found: request,
            });
        }
        Ok(())
    }
}
