//! Runs one call, from the signed request to the last reply.
//!
//! ```text
//! subscribe _R.<key>.<request>.>  ->  publish  ->  receive available -> verify batch -> emit events -> ... -> finish
//! ```
//!
//! Each known node receives its own publication with its own reply subject, so that a "no responders" status of the broker identifies the absent
//! node. Nodes share a signature in groups: a message names its whole group, so one signature serves many nodes, and no node has to read the whole
//! list.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use muster_base::{duration_millis, unix_millis_now};
use muster_bus::{BusMessage, ConnectionDisturbance, ConnectionMark, RefusalWatch};
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
use crate::request_sender::{self, RequestSender};
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
    client.check_granted(&call.agent, &call.action)?;
    let PreparedCall { call, without_key } = secrets::prepare_call(client, call).await?;
    let id = call.id.unwrap_or_else(Uuid::now_v7);
    let mut stats = CallStats { request: id, missing: without_key, ..CallStats::default() };
    if call.reply_delivery != ReplyDelivery::Here {
        return publish_without_waiting(client, &call, stats, events).await;
    }
    let reply_address = AnswerAddress::of_request(&client.signer.public_key().to_string(), &id);
    let connection_mark = client.bus.mark_connection();
    let replies = client.bus.subscribe(&reply_address.subscription_pattern()).await?;
    let awaited = match &call.target {
        CallTarget::Nodes(nodes) => Some(nodes.clone()),
        CallTarget::Filter(_) | CallTarget::AnyInstance => None,
    };
    let expected = awaited.as_ref().map(|nodes| nodes | &stats.missing);
    stats.expected = expected.as_ref().map(BTreeSet::len);
    let mut refusals = watch_refusals(client, &call);
    let mut sender = RequestSender::new(client, &call, id, reply_address.clone());
    sender.send_first(&mut stats).await?;
    let _ = events.send(CallEvent::Published { request: id, expected }).await;
    let published = Instant::now();
    let selector =
        ReplySelector { agent: call.agent.clone(), action: call.action.clone(), request: Some(id) };
    let collector = ReplyCollector {
        client,
        call: &call,
        selector,
        reply_address,
        connection_mark,
        published,
        sender,
        awaited: awaited.unwrap_or_default(),
        answered: BTreeSet::new(),
        stats,
        progress_tracker: ProgressTracker::default(),
        no_responders: false,
        last: None,
        final_probe: None,
    };
    tokio::select! {
        () = collector.run(ReplyInbox::new(replies), events) => Ok(()),
        // All of its requests, or none: their subjects begin with agent and action.
        refusal = refusals.refused() => Err(refusal.into()),
    }
}

/// Watches for the broker's refusal of this call's requests.
fn watch_refusals(client: &ClientInner, call: &RpcCall) -> RefusalWatch {
    client.bus.watch_refusals(&subject::requests_of(&client.collective, &call.agent, &call.action))
}

/// Publishes the request without waiting for replies, which go to another process or are not wanted.
async fn publish_without_waiting(
    client: &Arc<ClientInner>,
    call: &RpcCall,
    mut stats: CallStats,
    events: &CallEventSender,
) -> Result<()> {
    if let ReplyDelivery::Elsewhere(address) = &call.reply_delivery {
        client.answer_address(address.prefix())?;
    }
    let started_at = Instant::now();
    let (signer, collective) = (&client.signer, &client.collective);
    for request in outgoing_requests(signer, collective, call, stats.request, unix_millis_now) {
        request_sender::publish(client, request?).await?;
    }
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
    /// When the first requests had been sent.
    published: Instant,
    sender: RequestSender<'a>,
    /// Expected nodes without a reply so far.
    awaited: BTreeSet<Identity>,
    answered: BTreeSet<Identity>,
    /// The counts so far. `missing` has the nodes that were not sent the request, because their encryption key is unknown.
    stats: CallStats,
    progress_tracker: ProgressTracker,
    /// The broker reports no subscriber for the broadcast.
    no_responders: bool,
    last: Option<Instant>,
    /// The reply subject of the probe that was sent when the wait had ended.
    final_probe: Option<String>,
}

impl ReplyCollector<'_> {
    async fn run(mut self, mut replies: ReplyInbox, events: &CallEventSender) {
        loop {
            self.send_more(events).await;
            if self.outstanding_count() == 0 {
                break;
            }
            self.repeat_requests().await;
            let wakes_at = self.sender.wakes_at().or_else(|| self.repeats_at());
            let deadline = wakes_at.unwrap_or_else(|| self.ends_at());
            let next = match tokio::time::timeout_at(deadline, replies.next()).await {
                Ok(next) => next,
                Err(_) if wakes_at.is_some() => continue,
                Err(_) => self.wait_for_straggler(&mut replies).await,
            };
            let Some(first) = next else { break };
            let messages = replies.collect_batch(first, self.in_flight_count()).await;
            self.handle_messages(messages, &mut replies, events).await;
        }
        let _ = events.send(CallEvent::Finished(Box::new(self.into_stats()))).await;
    }

    /// When silent nodes are asked again; `None` if the call ends before.
    fn repeats_at(&self) -> Option<Instant> {
        self.sender.repeats_at().filter(|at| *at < self.ends_at())
    }

    /// Asks silent nodes again: the request or the reply may be lost with a connection of the caller, a server or the node.
    async fn repeat_requests(&mut self) {
        if self.sender.repeats_at().is_some_and(|at| at <= Instant::now()) {
            // A connection that is lost now is there again at a later repetition.
            let _ = self.sender.repeat(&self.awaited).await;
        }
    }

    /// Sends what the window permits. Stops if the receiver of the events was dropped.
    async fn send_more(&mut self, events: &CallEventSender) {
        if !self.sender.has_more() {
            return;
        }
        if events.is_closed() {
            return self.stop_sending();
        }
        let adapted = self.sender.adapt_window(&self.awaited).await;
        let outstanding = self.sender.outstanding_count(&self.awaited);
        if adapted.is_err() || self.sender.send_more(outstanding, &mut self.stats).await.is_err() {
            self.stop_sending();
        }
    }

    /// Gives up on the nodes that were sent nothing, and waits for the others.
    fn stop_sending(&mut self) {
        for node in self.sender.stop() {
            self.awaited.remove(&node);
            self.stats.unsent.insert(node);
        }
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

    /// Maximum number of replies that can arrive before more requests are sent.
    fn in_flight_count(&self) -> usize {
        if self.sender.unsent().is_empty() {
            return self.outstanding_count();
        }
        self.sender.outstanding_count(&self.awaited)
    }

    /// Waits for a late reply to a broadcast after the quiet window. Silence may mean a slow link, so probe the broker with a request that it answers
    /// itself ("no responders"): messages are ordered, so everything it sent before arrives before that answer.
    async fn wait_for_straggler(&mut self, replies: &mut ReplyInbox) -> Option<ArrivedMessage> {
        if !self.is_open_ended() {
            return self.wait_for_last(replies).await;
        }
        let probe = self.sender.probe_broker().await;
        let deadline = self.latest_end() + ROUND_TRIP_TIMEOUT;
        loop {
            let Ok(next) = tokio::time::timeout_at(deadline, replies.next()).await else {
                // More messages were on their way when the wait ended.
                self.stats.incomplete =
                    probe.is_ok().then_some(ConnectionDisturbance::SlowConsumer);
                return None;
            };
            match next {
                Some(next) if probe.as_ref().is_ok_and(|it| next.message.subject() == it) => {
                    return None;
                }
                // The confirmation of an earlier probe.
                Some(next) if self.reply_address.is_confirmation(next.message.subject()) => {}
                next => return next,
            }
        }
    }

    /// Waits for replies of known nodes that are still on their way from the broker after the wait: for the answer to one probe, or until nothing
    /// arrives.
    async fn wait_for_last(&mut self, replies: &mut ReplyInbox) -> Option<ArrivedMessage> {
        let probe = match self.final_probe.take() {
            Some(probe) => probe,
            None => self.sender.probe_broker().await.ok()?,
        };
        let next = tokio::time::timeout(ROUND_TRIP_TIMEOUT, replies.next()).await.ok()??;
        let is_answered = next.message.subject() == probe;
        self.final_probe = Some(probe);
        (!is_answered).then_some(next)
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
        self.sender.last_sent_at() + max_wait
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
                self.sender.record_confirmation(message.subject(), arrived_at);
                self.handle_no_responders(message.subject(), events).await;
                continue;
            }
            if message.payload().is_empty() && self.handle_empty_answer(message.subject()) {
                continue;
            }
            let is_progress = self.is_progress(&message);
            let reply_bytes = (!is_progress).then(|| message.payload().len());
            self.sender.record_arrival(reply_bytes, arrived_at);
            if is_progress {
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
        let Some(node) = self.sender.node_of(reply_subject).cloned() else {
            // Other subjects are late confirmations, or a node that reports itself absent.
            self.no_responders |= reply_subject == self.reply_address.of_broadcast();
            return;
        };
        if self.sender.record_unserved(&node) || self.sender.was_repeated(&node) {
            return;
        }
        self.sender.record_answer(&node);
        if self.awaited.remove(&node) {
            self.stats.absent.insert(node.clone());
            let _ = events.send(CallEvent::Absent(node)).await;
        }
    }

    /// Handles the message of a node that cannot read the stored request. It is not signed, because the node does not know the caller yet; all that a
    /// false one causes is that the node is sent the request itself. Returns whether it will be.
    fn handle_empty_answer(&mut self, reply_subject: &str) -> bool {
        let node = self.sender.node_of(reply_subject).cloned();
        node.is_some_and(|node| self.sender.record_unserved(&node))
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
        let received = Box::new(ReceivedReply {
            reply,
            rights: sender.rights(),
            after: arrived_at.saturating_duration_since(self.published),
            arrived: unix_millis_at(arrived_at),
            verifying,
        });
        let sender = received.reply.sender.clone();
        self.sender.record_answer(&sender);
        if received.reply.cloned {
            self.stats.cloned.insert(sender.clone());
        }
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
        stats.is_unserved = self.no_responders;
        stats.missing.extend(self.awaited);
        stats.missing.extend(stats.absent.iter().cloned());
        stats.missing.extend(stats.unsent.iter().cloned());
        // A lost message matters only if a reply may be missing.
        let is_complete = stats.expected.is_some() && stats.missing.is_empty();
        let disturbance = self.client.bus.disturbed_since(self.connection_mark);
        stats.incomplete = disturbance.or(stats.incomplete).filter(|_| !is_complete);
        let end = self.last.unwrap_or_else(Instant::now);
        stats.waiting = end.saturating_duration_since(self.published);
        stats
    }
}

/// The wall-clock time of this instant, which has passed.
fn unix_millis_at(instant: Instant) -> Millis {
    unix_millis_now().saturating_sub(duration_millis(instant.elapsed()))
}
