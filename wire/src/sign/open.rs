//! Opens requests and replies: a proven sender in the right role, who says what the surroundings say.
//!
//! Not here: age and replay ([`crate::fresh`]), whether a filter matches ([`crate::filter`]), and whether this node is
//! among those that are named, which the daemon's matching stage asks.

use std::sync::Arc;

use uuid::Uuid;

use super::{Envelope, EnvelopeKind, MessageRefusal, OpenEnvelope, verify_envelopes};
use crate::Millis;
use crate::identity::{Identity, SubjectName};
use crate::progress::ProgressMessage;
use crate::reply::Reply;
use crate::request::Request;
use crate::subject::RequestAddress;
use crate::token::{AccountTrust, TokenCache, UserRole, VerifiedUser};

/// Who may ask.
pub const REQUESTER_ROLES: [UserRole; 2] = [UserRole::Caller, UserRole::Service];

/// Who may answer.
pub const REPLIER_ROLES: [UserRole; 2] = [UserRole::Node, UserRole::Service];

/// A request of a proven caller, as its subject says.
#[derive(Debug, Clone)]
pub struct OpenRequest {
    /// What is asked.
    pub request: Request,
    /// Who asks.
    pub caller: Arc<VerifiedUser>,
}

/// A reply of a proven node to what was asked.
#[derive(Debug, Clone)]
pub struct OpenReply {
    /// The answer.
    pub reply: Reply,
    /// Who answers.
    pub sender: Arc<VerifiedUser>,
}

/// What a reply must answer.
#[derive(Debug, Clone, Copy)]
pub struct ExpectedAnswer<'a> {
    /// The request's id; any, for whoever waits for answers to what somebody else has sent.
    pub request: Option<Uuid>,
    /// The agent that was asked.
    pub agent: &'a SubjectName,
    /// The action that was asked.
    pub action: &'a SubjectName,
}

/// Opens a request that came in on this subject.
///
/// A request on one node's subject must name that node: a filter would be somebody's broadcast, moved.
pub fn open_request(
    bytes: &[u8],
    subject: &RequestAddress,
    trust: &AccountTrust,
    cache: &TokenCache,
    now: Millis,
) -> Result<OpenRequest, MessageRefusal> {
    let envelope = Envelope::decode(EnvelopeKind::Request, bytes)?;
    let opened = envelope.verify(trust, cache, now, &REQUESTER_ROLES)?;
    let caller = opened.sender;
    let request = Request::decode(opened.body).map_err(|source| MessageRefusal::Request {
        sender: caller.identity.clone(),
        source,
    })?;
    if request.caller != caller.identity {
        let (sender, claimed) = (caller.identity.clone(), request.caller);
        return Err(MessageRefusal::WrongSender { sender, claimed });
    }
    if let Some(field) = mismatched_subject_field(&request, subject) {
        return Err(MessageRefusal::SubjectMismatch {
            sender: caller.identity.clone(),
            field,
        });
    }
    Ok(OpenRequest { request, caller })
}

/// The first field in which subject and body disagree.
fn mismatched_subject_field(request: &Request, subject: &RequestAddress) -> Option<&'static str> {
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
    expected: &ExpectedAnswer<'_>,
    trust: &AccountTrust,
    cache: &TokenCache,
    now: Millis,
) -> Result<OpenReply, MessageRefusal> {
    let envelope = Envelope::decode(EnvelopeKind::Reply, bytes)?;
    check_reply(
        envelope.verify(trust, cache, now, &REPLIER_ROLES)?,
        expected,
    )
}

/// Opens many replies together, at about a third of the cost; the results are in their order.
pub fn open_replies<M: AsRef<[u8]>>(
    messages: &[M],
    expected: &ExpectedAnswer<'_>,
    trust: &AccountTrust,
    cache: &TokenCache,
    now: Millis,
) -> Vec<Result<OpenReply, MessageRefusal>> {
    verify_envelopes(
        EnvelopeKind::Reply,
        messages,
        trust,
        cache,
        now,
        &REPLIER_ROLES,
    )
    .into_iter()
    .map(|opened| check_reply(opened?, expected))
    .collect()
}

fn check_reply(
    opened: OpenEnvelope<'_>,
    expected: &ExpectedAnswer<'_>,
) -> Result<OpenReply, MessageRefusal> {
    let sender = opened.sender;
    let reply = Reply::decode(opened.body).map_err(|source| MessageRefusal::Reply {
        sender: sender.identity.clone(),
        source,
    })?;
    let asked = (reply.request, &reply.agent, &reply.action);
    expected.check_sender(&sender, &reply.sender, asked)?;
    Ok(OpenReply { reply, sender })
}

/// Opens progress messages together, as [`open_replies`] does with replies; the results are in their order.
pub fn open_progress<M: AsRef<[u8]>>(
    messages: &[M],
    expected: &ExpectedAnswer<'_>,
    trust: &AccountTrust,
    cache: &TokenCache,
    now: Millis,
) -> Vec<Result<ProgressMessage, MessageRefusal>> {
    verify_envelopes(
        EnvelopeKind::Progress,
        messages,
        trust,
        cache,
        now,
        &REPLIER_ROLES,
    )
    .into_iter()
    .map(|opened| check_progress(opened?, expected))
    .collect()
}

fn check_progress(
    opened: OpenEnvelope<'_>,
    expected: &ExpectedAnswer<'_>,
) -> Result<ProgressMessage, MessageRefusal> {
    let sender = opened.sender;
    let progress =
        ProgressMessage::decode(opened.body).map_err(|source| MessageRefusal::Progress {
            sender: sender.identity.clone(),
            source,
        })?;
    let asked = (progress.request, &progress.agent, &progress.action);
    expected.check_sender(&sender, &progress.sender, asked)?;
    Ok(progress)
}

impl ExpectedAnswer<'_> {
    /// Whether this proven sender speaks for itself, and of what was asked.
    fn check_sender(
        &self,
        sender: &VerifiedUser,
        claimed: &Identity,
        (request, agent, action): (Uuid, &SubjectName, &SubjectName),
    ) -> Result<(), MessageRefusal> {
        if *claimed != sender.identity {
            return Err(MessageRefusal::WrongSender {
                sender: sender.identity.clone(),
                claimed: claimed.clone(),
            });
        }
        let other = self.request.is_some_and(|expected| expected != request);
        if other || agent != self.agent || action != self.action {
            return Err(MessageRefusal::OtherRequest {
                sender: sender.identity.clone(),
                found: request,
            });
        }
        Ok(())
    }
}
