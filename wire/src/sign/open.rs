//! Opens requests, replies and progress messages: verifies the sender and its role, and compares the body with its context.
//!
//! Not in this module: age and replay ([`crate::fresh`]), filter matching ([`muster_filter`]), and whether this node is among the
//! listed targets, which the daemon's matching stage checks.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::batch::verify_envelopes;
use super::envelope::{Envelope, OpenEnvelope};
use super::kind::EnvelopeKind;
use super::refusal::{MessageRefusal, Result};
use crate::Millis;
use crate::event::FleetEvent;
use crate::history::HistoryBatch;
use crate::identity::{Identity, SubjectName};
use crate::node_record::{NodeHeartbeat, NodeRecord};
use crate::progress::ProgressMessage;
use crate::reply::Reply;
use crate::request::Request;
use crate::subject::{EventAddress, RequestAddress};
use crate::token::{AccountTrust, TokenCache, UserRole, VerifiedUser};

/// Roles that may send requests.
pub const REQUESTER_ROLES: [UserRole; 2] = [UserRole::Caller, UserRole::Service];

/// Roles that may send replies.
pub const REPLIER_ROLES: [UserRole; 2] = [UserRole::Node, UserRole::Service];

/// A request with a verified caller and a matching subject.
#[derive(Debug, Clone)]
pub struct OpenRequest {
    /// The request.
    pub request: Request,
    /// The verified caller.
    pub caller: Arc<VerifiedUser>,
}

/// A reply from a verified node to the expected request.
#[derive(Debug, Clone)]
pub struct OpenReply {
    /// The reply.
    pub reply: Reply,
    /// The verified sender.
    pub sender: Arc<VerifiedUser>,
}

/// A record from the node whose name it is stored under.
#[derive(Debug, Clone)]
pub struct OpenRecord {
    /// The record.
    pub record: NodeRecord,
    /// The verified node.
    pub sender: Arc<VerifiedUser>,
}

/// The properties that a reply must have.
#[derive(Debug, Clone, Copy)]
pub struct ExpectedAnswer<'a> {
    /// The request id; `None` accepts any, for callers that collect answers to requests of other processes.
    pub request: Option<Uuid>,
    /// The requested agent.
    pub agent: &'a SubjectName,
    /// The requested action.
    pub action: &'a SubjectName,
}

/// Opens a request that was received on this subject.
///
/// A request on a node's own subject must list that node. A filter there would be a broadcast replayed on another subject.
pub fn open_request(
    bytes: &[u8],
    subject: &RequestAddress,
    trust: &AccountTrust,
    cache: &TokenCache,
    now: Millis,
) -> Result<OpenRequest> {
    let envelope = Envelope::decode(EnvelopeKind::Request, bytes)?;
    let opened = envelope.verify(trust, cache, now, &REQUESTER_ROLES)?;
    let caller = opened.sender;
    let request = Request::decode(opened.body)
        .map_err(|source| MessageRefusal::Request { sender: caller.identity.clone(), source })?;
    if request.caller != caller.identity {
        let (sender, claimed) = (caller.identity.clone(), request.caller);
        return Err(MessageRefusal::WrongSender { sender, claimed });
    }
    if let Some(field) = mismatched_subject_field(&request, subject) {
        return Err(MessageRefusal::SubjectMismatch { sender: caller.identity.clone(), field });
    }
    Ok(OpenRequest { request, caller })
}

/// The first field in which subject and body differ.
fn mismatched_subject_field(request: &Request, subject: &RequestAddress) -> Option<&'static str> {
    let lists_node = |node| request.target.nodes().is_some_and(|nodes| nodes.contains(node));
    let comparisons = [
        ("collective", request.collective == subject.collective),
        ("agent", request.agent == subject.agent),
        ("action", request.action == subject.action),
        ("node", subject.node.as_ref().is_none_or(lists_node)),
    ];
    comparisons.into_iter().find(|(_, is_same)| !is_same).map(|(field, _)| field)
}

/// Opens one reply.
pub fn open_reply(
    bytes: &[u8],
    expected: &ExpectedAnswer<'_>,
    trust: &AccountTrust,
    cache: &TokenCache,
    now: Millis,
) -> Result<OpenReply> {
    let envelope = Envelope::decode(EnvelopeKind::Reply, bytes)?;
    check_reply(envelope.verify(trust, cache, now, &REPLIER_ROLES)?, expected)
}

/// Opens many replies in a batch, at about a third of the cost; returns the results in input order.
pub fn open_replies<M: AsRef<[u8]>>(
    messages: &[M],
    expected: &ExpectedAnswer<'_>,
    trust: &AccountTrust,
    cache: &TokenCache,
    now: Millis,
) -> Vec<Result<OpenReply>> {
    verify_envelopes(EnvelopeKind::Reply, messages, trust, cache, now, &REPLIER_ROLES)
        .into_iter()
        .map(|opened| check_reply(opened?, expected))
        .collect()
}

fn check_reply(opened: OpenEnvelope<'_>, expected: &ExpectedAnswer<'_>) -> Result<OpenReply> {
    let sender = opened.sender;
    let reply = Reply::decode(opened.body)
        .map_err(|source| MessageRefusal::Reply { sender: sender.identity.clone(), source })?;
    expected.check_sender(&sender, &reply.sender, reply.request, &reply.agent, &reply.action)?;
    Ok(OpenReply { reply, sender })
}

/// Opens many progress messages in a batch, like [`open_replies`]; returns the results in input order.
pub fn open_progress<M: AsRef<[u8]>>(
    messages: &[M],
    expected: &ExpectedAnswer<'_>,
    trust: &AccountTrust,
    cache: &TokenCache,
    now: Millis,
) -> Vec<Result<ProgressMessage>> {
    verify_envelopes(EnvelopeKind::Progress, messages, trust, cache, now, &REPLIER_ROLES)
        .into_iter()
        .map(|opened| check_progress(opened?, expected))
        .collect()
}

fn check_progress(
    opened: OpenEnvelope<'_>,
    expected: &ExpectedAnswer<'_>,
) -> Result<ProgressMessage> {
    let sender = opened.sender;
    let progress = ProgressMessage::decode(opened.body)
        .map_err(|source| MessageRefusal::Progress { sender: sender.identity.clone(), source })?;
    expected.check_sender(
        &sender,
        &progress.sender,
        progress.request,
        &progress.agent,
        &progress.action,
    )?;
    Ok(progress)
}

/// Opens an event that was received on this subject. The broker lets a node publish only under its own name, so an event that another node recorded
/// and published again does not match its subject.
pub fn open_event(
    bytes: &[u8],
    subject: &EventAddress,
    trust: &AccountTrust,
    cache: &TokenCache,
    now: Millis,
) -> Result<FleetEvent> {
    let envelope = Envelope::decode(EnvelopeKind::Event, bytes)?;
    let opened = envelope.verify(trust, cache, now, &REPLIER_ROLES)?;
    let sender = &opened.sender.identity;
    let event = FleetEvent::decode(opened.body)
        .map_err(|source| MessageRefusal::Event { sender: sender.clone(), source })?;
    check_own_message(sender, &event.sender, &subject.node)?;
    if event.kind != subject.kind {
        return Err(MessageRefusal::SubjectMismatch { sender: sender.clone(), field: "kind" });
    }
    Ok(event)
}

/// Opens the record that is stored under this node's name. The broker lets a node write its own record only; a record of another node under that name
/// is refused here too.
pub fn open_record(
    bytes: &[u8],
    node: &Identity,
    trust: &AccountTrust,
    cache: &TokenCache,
    now: Millis,
) -> Result<OpenRecord> {
    let envelope = Envelope::decode(EnvelopeKind::Record, bytes)?;
    let opened = envelope.verify(trust, cache, now, &REPLIER_ROLES)?;
    let record: NodeRecord =
        parse_own_message(&opened, node, |record: &NodeRecord| &record.sender)?;
    Ok(OpenRecord { record, sender: opened.sender })
}

/// Opens a heartbeat that was received on this node's subject.
pub fn open_heartbeat(
    bytes: &[u8],
    node: &Identity,
    trust: &AccountTrust,
    cache: &TokenCache,
    now: Millis,
) -> Result<NodeHeartbeat> {
    let envelope = Envelope::decode(EnvelopeKind::Heartbeat, bytes)?;
    let opened = envelope.verify(trust, cache, now, &REPLIER_ROLES)?;
    parse_own_message(&opened, node, |heartbeat: &NodeHeartbeat| &heartbeat.sender)
}

/// Opens a batch of the history that is stored under this node's name.
pub fn open_history(
    bytes: &[u8],
    node: &Identity,
    trust: &AccountTrust,
    cache: &TokenCache,
    now: Millis,
) -> Result<HistoryBatch> {
    let envelope = Envelope::decode(EnvelopeKind::History, bytes)?;
    let opened = envelope.verify(trust, cache, now, &REPLIER_ROLES)?;
    parse_own_message(&opened, node, |batch: &HistoryBatch| &batch.sender)
}

/// Parses a body, and checks that the sender, the name in the body, and the name where the message was found are the same.
fn parse_own_message<T: DeserializeOwned>(
    opened: &OpenEnvelope<'_>,
    place: &Identity,
    claimed: impl Fn(&T) -> &Identity,
) -> Result<T> {
    let message: T = serde_json::from_slice(opened.body).map_err(MessageRefusal::Malformed)?;
    check_own_message(&opened.sender.identity, claimed(&message), place)?;
    Ok(message)
}

/// Checks that the sender, the name in the body, and the name where the message was found are the same.
fn check_own_message(sender: &Identity, claimed: &Identity, place: &Identity) -> Result<()> {
    if claimed != sender {
        let (sender, claimed) = (sender.clone(), claimed.clone());
        return Err(MessageRefusal::WrongSender { sender, claimed });
    }
    if place != sender {
        return Err(MessageRefusal::SubjectMismatch { sender: sender.clone(), field: "sender" });
    }
    Ok(())
}

impl ExpectedAnswer<'_> {
    /// Checks that the body names the verified sender and the expected request, agent and action.
    fn check_sender(
        &self,
        sender: &VerifiedUser,
        claimed: &Identity,
        request: Uuid,
        agent: &SubjectName,
        action: &SubjectName,
    ) -> Result<()> {
        if *claimed != sender.identity {
            return Err(MessageRefusal::WrongSender {
                sender: sender.identity.clone(),
                claimed: claimed.clone(),
            });
        }
        let is_other_request = self.request.is_some_and(|expected| expected != request);
        if is_other_request || agent != self.agent || action != self.action {
            return Err(MessageRefusal::OtherRequest {
                sender: sender.identity.clone(),
                found: request,
            });
        }
        Ok(())
    }
}
