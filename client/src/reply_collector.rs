//! Runs one call, from the signed request to the last reply.
//!
//! ```text
//! subscribe _R.<key>.<request>.>  ->  publish  ->  receive available -> verify batch -> emit events -> ... -> finish
//! ```
//!
//! Each known node receives its own publication with its own reply subject, so that a "no responders" status of the broker identifies the absent
//! node. Nodes share a signature in groups: a message names its whole group, so one signature serves many nodes, and no node has to read the whole
//! list.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use muster_base::{duration_millis, unix_millis_now};
use muster_bus::{BusMessage, Bytes, ConnectionDisturbance, ConnectionMark};
use muster_wire::Millis;
use muster_wire::identity::Identity;
use muster_wire::progress::ProgressMessage;
use muster_wire::sign::{EnvelopeKind, MessageRefusal, OpenReply, open_progress};
use muster_wire::subject::{self, AnswerAddress};
use tokio::sync::mpsc;
use tokio::time::Instant;
use uuid::Uuid;

use crate::batch::{ArrivedMessage, ReplyInbox};
use crate::call::{CallTarget, ReplyDelivery, ReplySelector, RpcCall};
use crate::client_inner::ClientInner;
use crate::error::Result;
use crate::event::{CallEvent, ReceivedReply};
use crate::open_replies;
use crate::outgoing_request::outgoing_requests;
use crate::progress::ProgressTracker;
use crate::secrets::{self, PreparedCall};
use crate::stats::CallStats;

/// Maximum time, after the wait has ended, for the broker to confirm that it has delivered everything.
const ROUND_TRIP_TIMEOUT: Duration = Duration::from_secs(1);

type CallEventSender = mpsc::Sender<CallEvent>;

/// Runs the call and sends its events; an error means that the call could not be sent.
pub(crate) async fn run_call(
    client: &Arc<ClientInner>,
    call: RpcCall,
    events: &CallEventSender,
) -> Result<()> {
    client.check_granted(&call.agent)?;
    let PreparedCall { call, without_key } = secrets::prepare_call(client, call).await?;
    let id = Uuid::now_v7();
    let mut stats = CallStats { request: id, missing: without_key, ..CallStats::default() };
    if call.reply_delivery != ReplyDelivery::Here {
        return publish_without_waiting(client, &call, stats, events).await;
    }
    let reply_address = AnswerAddress::of_request(&client.signer.public_key().to_string(), &id);
    let connection_mark = client.bus.mark_connection();
    let replies = client.bus.subscribe(&reply_address.subscription_pattern()).await?;
    let started_at = Instant::now();
    let nodes_by_reply_subject = publish_requests(client, &call, &mut stats).await?;
    let awaited = match &call.target {
        CallTarget::Nodes(nodes) => Some(nodes.clone()),
        CallTarget::Filter(_) => None,
    };
    let expected = awaited.as_ref().map(|nodes| nodes | &stats.missing);
    stats.expected = expected.as_ref().map(BTreeSet::len);
    let _ = events.send(CallEvent::Published { request: id, expected }).await;
    let published = Instant::now();
    stats.publishing = published - started_at;
    let selector =
        ReplySelector { agent: call.agent.clone(), action: call.action.clone(), request: Some(id) };
    let collector = ReplyCollector {
        client,
        call: &call,
        selector,
        reply_address,
        connection_mark,
        published,
        nodes_by_reply_subject,
        awaited: awaited.unwrap_or_default(),
        answered: BTreeSet::new(),
        stats,
        progress_tracker: ProgressTracker::default(),
        no_responders: false,
        last: None,
    };
    collector.run(ReplyInbox::new(replies), events).await;
    Ok(())
}

/// Publishes the request, and returns the node for each reply subject.
async fn publish_requests(
    client: &ClientInner,
    call: &RpcCall,
    stats: &mut CallStats,
) -> Result<HashMap<String, Identity>> {
    let mut nodes_by_reply_subject = HashMap::new();
    let (signer, collective) = (&client.signer, &client.collective);
    let mut requests =
        outgoing_requests(signer, collective, call, stats.request, unix_millis_now());
    loop {
        let started_at = Instant::now();
        let Some(request) = requests.next() else {
            break;
        };
        let request = request?;
        stats.signing += started_at.elapsed();
        let sealed = Bytes::from(request.sealed);
        for to in request.to {
            match &to.reply_to {
                Some(reply_to) => {
                    client.bus.publish_with_reply(&to.subject, reply_to, sealed.clone()).await?;
                }
                None => client.bus.publish(&to.subject, sealed.clone()).await?,
            }
            if let (Some(node), Some(reply_to)) = (to.node, to.reply_to) {
                nodes_by_reply_subject.insert(reply_to, node);
            }
        }
    }
    client.bus.flush().await?;
    Ok(nodes_by_reply_subject)
}

/// Publishes the request without waiting for replies, which go to another process or are not wanted.
async fn publish_without_waiting(
    client: &ClientInner,
    call: &RpcCall,
    mut stats: CallStats,
    events: &CallEventSender,
) -> Result<()> {
    if let ReplyDelivery::Elsewhere(address) = &call.reply_delivery {
        client.answer_address(address.prefix())?;
    }
    let started_at = Instant::now();
    publish_requests(client, call, &mut stats).await?;
    // No reply will confirm the request, so at least confirm that the broker received it.
    client.bus.confirm_delivery().await?;
    stats.publishing = started_at.elapsed();
    let event = CallEvent::Published { request: stats.request, expected: None };
    let _ = events.send(event).await;
    let _ = events.send(CallEvent::Finished(Box::new(stats))).await;
    Ok(())
}

/// State of a call that waits for replies.
struct ReplyCollector<'a> {
    client: &'a Arc<ClientInner>,
    call: &'a RpcCall,
    /// The values that a reply must match.
    selector: ReplySelector,
    reply_address: AnswerAddress,
    connection_mark: ConnectionMark,
    published: Instant,
    /// The node for each reply subject.
    nodes_by_reply_subject: HashMap<String, Identity>,
    /// Expected nodes without a reply so far.
    awaited: BTreeSet<Identity>,
    answered: BTreeSet<Identity>,
    /// The counts so far. `missing` has the nodes that were not sent the request, because their encryption key is unknown.
    stats: CallStats,
    progress_tracker: ProgressTracker,
    /// The broker reports no subscriber for the broadcast.
    no_responders: bool,
    last: Option<Instant>,
}

impl ReplyCollector<'_> {
    async fn run(mut self, mut replies: ReplyInbox, events: &CallEventSender) {
        while self.outstanding_count() > 0 {
            let next = match tokio::time::timeout_at(self.ends_at(), replies.next()).await {
                Ok(next) => next,
                Err(_) => self.wait_for_straggler(&mut replies).await,
            };
            let Some(first) = next else { break };
            let messages = replies.collect_batch(first, self.outstanding_count()).await;
            self.handle_messages(messages, &mut replies, events).await;
        }
        let _ = events.send(CallEvent::Finished(Box::new(self.into_stats()))).await;
    }

    /// Maximum number of outstanding replies; `usize::MAX` when the number of nodes is unknown.
    fn outstanding_count(&self) -> usize {
        let all = match self.stats.expected {
            Some(_) => self.awaited.len(),
            None if self.no_responders => 0,
            None => usize::MAX,
        };
        let received = self.stats.response_count();
        let remaining = self.call.expect.map(|count| count.saturating_sub(received));
        remaining.map_or(all, |remaining| remaining.min(all))
    }

    /// Waits for a late reply to a broadcast after the quiet window. Silence may mean a slow link, so probe the broker with a request that it answers
    /// itself ("no responders"): messages are ordered, so everything it sent before arrives before that answer.
    async fn wait_for_straggler(&mut self, replies: &mut ReplyInbox) -> Option<ArrivedMessage> {
        if !self.is_open_ended() {
            return None;
        }
        let token = Uuid::now_v7().simple().to_string();
        let reply_subject = self.reply_address.of_confirmation(&token);
        let subject_name = subject::CONFIRM_SUBJECT;
        let probe =
            self.client.bus.publish_with_reply(subject_name, &reply_subject, Bytes::new()).await;
        let deadline = self.latest_end() + ROUND_TRIP_TIMEOUT;
        loop {
            let Ok(next) = tokio::time::timeout_at(deadline, replies.next()).await else {
                // More messages were on their way when the wait ended.
                self.stats.incomplete =
                    probe.is_ok().then_some(ConnectionDisturbance::SlowConsumer);
                return None;
            };
            match next {
                Some(next) if next.message.subject() == reply_subject => return None,
                // The confirmation of an earlier probe.
                Some(next) if self.reply_address.is_confirmation(next.message.subject()) => {}
                next => return next,
            }
        }
    }

    fn is_open_ended(&self) -> bool {
        self.stats.expected.is_none() && self.call.expect.is_none()
    }

    /// The end of the wait if no further message arrives.
    fn ends_at(&self) -> Instant {
        match self.last {
            Some(last) if self.is_open_ended() => {
                self.latest_end().min(last + self.client.window.quiet_time)
            }
            _ => self.latest_end(),
        }
    }

    /// The latest end of the wait: while uncounted replies keep arriving, the wait is extended.
    fn latest_end(&self) -> Instant {
        let wait = self.call.wait;
        let max_wait = match self.last {
            Some(_) if self.is_open_ended() => wait.max(self.client.window.max_wait),
            _ => wait,
        };
        self.published + max_wait
    }

    async fn handle_messages(
        &mut self,
        messages: Vec<ArrivedMessage>,
        inbox: &mut ReplyInbox,
        events: &CallEventSender,
    ) {
        let (mut progress_messages, mut replies, mut arrivals) =
            (Vec::new(), Vec::new(), Vec::new());
        for ArrivedMessage { message, arrived_at } in messages {
            if message.is_no_responders() {
                self.handle_no_responders(message.subject(), events).await;
            } else if self.is_progress(&message) {
                progress_messages.push(message.payload().clone());
            } else {
                replies.push(message.payload().clone());
                arrivals.push(arrived_at);
            }
        }
        // A node sends progress before its reply, so report it before the reply.
        let (trust, now) = (self.client.trust(), unix_millis_now());
        let expected = self.selector.as_expected();
        let (messages, tokens) = (&progress_messages, &self.client.tokens);
        for progress in open_progress(messages, &expected, &trust, tokens, now) {
            self.handle_progress(progress, events).await;
        }
        let started_at = Instant::now();
        let verification = open_replies::open_reply_batch(self.client, &self.selector, replies);
        let opened = inbox.receive_during(verification).await;
        let count = u32::try_from(opened.len()).unwrap_or(u32::MAX).max(1);
        let verifying = started_at.elapsed() / count;
        for (reply, arrived_at) in opened.into_iter().zip(arrivals) {
            self.handle_reply(reply, (arrived_at, verifying), events).await;
        }
    }

    fn is_progress(&self, message: &BusMessage) -> bool {
        self.call.stream
            && EnvelopeKind::of_inbox_message(message.payload()) == EnvelopeKind::Progress
    }

    async fn handle_no_responders(&mut self, reply_subject: &str, events: &CallEventSender) {
        let Some(node) = self.nodes_by_reply_subject.get(reply_subject) else {
            // Other subjects are late confirmations, or a node that reports itself absent.
            self.no_responders |= reply_subject == self.reply_address.of_broadcast();
            return;
        };
        if self.awaited.remove(node) {
            self.stats.absent.insert(node.clone());
            let _ = events.send(CallEvent::Absent(node.clone())).await;
        }
    }

    /// Handles a progress message; ignores nodes that have already replied.
    async fn handle_progress(
        &mut self,
        progress: Result<ProgressMessage, MessageRefusal>,
        events: &CallEventSender,
    ) {
        let reason = match progress {
            Ok(progress) if self.is_awaited(&progress.sender) => {
                self.last = Some(Instant::now());
                if let Some(update) = self.progress_tracker.record_progress(progress) {
                    let _ = events.send(CallEvent::Progress(Box::new(update))).await;
                }
                return;
            }
            Ok(_) => "stray_progress",
            Err(refusal) => refusal.reason_code(),
        };
        self.reject_message(reason, events).await;
    }

    async fn reject_message(&mut self, reason: &'static str, events: &CallEventSender) {
        self.stats.rejected += 1;
        let _ = events.send(CallEvent::Rejected(reason)).await;
    }

    fn is_awaited(&self, node: &Identity) -> bool {
        match self.stats.expected {
            Some(_) => self.awaited.contains(node),
            None => !self.answered.contains(node),
        }
    }

    async fn handle_reply(
        &mut self,
        reply: Result<OpenReply, MessageRefusal>,
        (arrived_at, verifying): (Instant, Duration),
        events: &CallEventSender,
    ) {
        let OpenReply { reply, sender } = match reply {
            Ok(opened) => opened,
            Err(refusal) => return self.reject_message(refusal.reason_code(), events).await,
        };
        self.client.note_sender(&sender);
        let sender = reply.sender.clone();
        let received = Box::new(ReceivedReply {
            reply,
            after: arrived_at.saturating_duration_since(self.published),
            arrived: unix_millis_at(arrived_at),
            verifying,
        });
        let first = self.answered.insert(sender.clone());
        let is_expected = first && (self.stats.expected.is_none() || self.awaited.remove(&sender));
        if !is_expected {
            self.stats.unexpected.insert(sender.clone());
            let _ = events.send(CallEvent::Unexpected(received)).await;
            return;
        }
        self.last = self.last.max(Some(arrived_at));
        if let Some(counts) = received.reply.progress
            && self.call.stream
            && let Some(update) = self.progress_tracker.finish_node(&sender, counts)
        {
            let _ = events.send(CallEvent::Progress(Box::new(update))).await;
        }
        if received.is_ok() {
            self.stats.ok += 1;
        } else {
            self.stats.failed += 1;
        }
        let _ = events.send(CallEvent::Reply(received)).await;
    }

    fn into_stats(self) -> CallStats {
        let mut stats = self.stats;
        stats.missing.extend(self.awaited);
        stats.missing.extend(stats.absent.iter().cloned());
        let disturbance = self.client.bus.disturbed_since(self.connection_mark);
        stats.incomplete = disturbance.or(stats.incomplete);
        let end = self.last.unwrap_or_else(Instant::now);
        stats.waiting = end.saturating_duration_since(self.published);
        stats
    }
}

/// The wall-clock time of this instant, which has passed.
fn unix_millis_at(instant: Instant) -> Millis {
    unix_millis_now().saturating_sub(duration_millis(instant.elapsed()))
}
