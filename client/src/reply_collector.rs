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

use muster_bus::{
    BusMessage, BusSubscription, Bytes, ConnectionDisturbance, ConnectionMark, unix_millis_now,
};
use muster_wire::identity::Identity;
use muster_wire::progress::ProgressMessage;
use muster_wire::sign::{EnvelopeKind, MessageRefusal, OpenReply, open_progress};
use muster_wire::subject::{self, AnswerAddress};
use tokio::sync::mpsc;
use tokio::time::Instant;
use uuid::Uuid;

use crate::batch;
use crate::call::{CallTarget, ReplyDelivery, RpcCall};
use crate::client_inner::ClientInner;
use crate::error::ClientError;
use crate::event::{CallEvent, ReceivedReply};
use crate::open_replies::{self, ReplyExpectation};
use crate::outgoing_request::outgoing_requests;
use crate::progress::ProgressTracker;
use crate::secrets::{self, PreparedCall};
use crate::stats::CallStats;

/// Maximum time, after the wait has ended, for the broker to confirm that it has delivered everything.
const ROUND_TRIP_TIMEOUT: Duration = Duration::from_secs(1);

type CallEventSender = mpsc::Sender<CallEvent>;

/// Runs the call and sends its events; an error means that the call could not be sent.
pub(crate) async fn run_call(
    party: &Arc<ClientInner>,
    call: RpcCall,
    tell: &CallEventSender,
) -> Result<(), ClientError> {
    party.check_granted(&call.agent)?;
    let PreparedCall { call, silent } = secrets::prepare_call(party, call).await?;
    let id = Uuid::now_v7();
    if call.answers != ReplyDelivery::Here {
        return publish_without_waiting(party, &call, (id, silent), tell).await;
    }
    let answers = AnswerAddress::of_request(&party.signer.public_key().to_string(), &id);
    let mark = party.bus.mark_connection();
    let replies = party.bus.subscribe(&answers.subscription_pattern()).await?;
    let begun = Instant::now();
    let PublishedCall { asked, signing } = publish_requests(party, &call, id).await?;
    let awaited = match &call.aim {
        CallTarget::Nodes(nodes) => Some(nodes.clone()),
        CallTarget::Filter(_) => None,
    };
    let expected = awaited.as_ref().map(|nodes| nodes | &silent);
    let _ = tell
        .send(CallEvent::Published {
            request: id,
            expected: expected.clone(),
        })
        .await;
    let gathering = ReplyCollector {
        party,
        call: &call,
        id,
        answers,
        mark,
        begun,
        signing,
        published: Instant::now(),
        asked,
        awaited: awaited.unwrap_or_default(),
        silent,
        expected: expected.as_ref().map(BTreeSet::len),
        answered: BTreeSet::new(),
        absent: BTreeSet::new(),
        unexpected: BTreeSet::new(),
        tally: ReplyCounts::default(),
        telling: ProgressTracker::default(),
        nobody: false,
        behind: false,
        last: None,
    };
    gathering.run(replies, tell).await;
    Ok(())
}

/// A call whose request has been sent.
struct PublishedCall {
    /// The node for each reply subject.
    asked: HashMap<String, Identity>,
    /// Duration of encoding and signing.
    signing: Duration,
}

/// Publishes the request.
async fn publish_requests(
    party: &ClientInner,
    call: &RpcCall,
    id: Uuid,
) -> Result<PublishedCall, ClientError> {
    let mut published = PublishedCall {
        asked: HashMap::new(),
        signing: Duration::ZERO,
    };
    let mut letters = outgoing_requests(
        &party.signer,
        &party.collective,
        call,
        id,
        unix_millis_now(),
    );
    loop {
        let begun = Instant::now();
        let Some(letter) = letters.next() else { break };
        let letter = letter?;
        published.signing += begun.elapsed();
        let sealed = Bytes::from(letter.sealed);
        for to in letter.to {
            match &to.reply_to {
                Some(reply_to) => {
                    party
                        .bus
                        .publish_with_reply(&to.subject, reply_to, sealed.clone())
                        .await?;
                }
                None => party.bus.publish(&to.subject, sealed.clone()).await?,
            }
            if let (Some(node), Some(reply_to)) = (to.node, to.reply_to) {
                published.asked.insert(reply_to, node);
            }
        }
    }
    party.bus.flush().await?;
    Ok(published)
}

/// Publishes the request without waiting for replies, which go to another process or are not wanted.
async fn publish_without_waiting(
    party: &ClientInner,
    call: &RpcCall,
    (id, missing): (Uuid, BTreeSet<Identity>),
    tell: &CallEventSender,
) -> Result<(), ClientError> {
    if let ReplyDelivery::Elsewhere(address) = &call.answers {
        party.answer_address(address.prefix())?;
    }
    let begun = Instant::now();
    let signing = publish_requests(party, call, id).await?.signing;
    // No reply will confirm the request, so at least confirm that the broker received it.
    party.bus.confirm_delivery().await?;
    let publishing = begun.elapsed();
    let told = CallEvent::Published {
        request: id,
        expected: None,
    };
    let _ = tell.send(told).await;
    let stats = CallStats {
        request: id,
        expected: None,
        ok: 0,
        failed: 0,
        missing,
        absent: BTreeSet::new(),
        unexpected: BTreeSet::new(),
        disbelieved: 0,
        incomplete: None,
        signing,
        publishing,
        waiting: Duration::ZERO,
    };
    let _ = tell.send(CallEvent::Finished(Box::new(stats))).await;
    Ok(())
}

/// State of a call that waits for replies.
struct ReplyCollector<'a> {
    party: &'a Arc<ClientInner>,
    call: &'a RpcCall,
    id: Uuid,
    answers: AnswerAddress,
    mark: ConnectionMark,
    begun: Instant,
    signing: Duration,
    published: Instant,
    /// The node for each reply subject.
    asked: HashMap<String, Identity>,
    /// Expected nodes that were not sent the request, because their encryption key is unknown.
    silent: BTreeSet<Identity>,
    /// Expected nodes without a reply so far.
    awaited: BTreeSet<Identity>,
    expected: Option<usize>,
    answered: BTreeSet<Identity>,
    absent: BTreeSet<Identity>,
    unexpected: BTreeSet<Identity>,
    tally: ReplyCounts,
    telling: ProgressTracker,
    /// The broker reports no subscriber for the broadcast.
    nobody: bool,
    /// More messages were on their way when the wait ended.
    behind: bool,
    last: Option<Instant>,
}

#[derive(Default)]
struct ReplyCounts {
    ok: usize,
    failed: usize,
    disbelieved: usize,
}

impl ReplyCollector<'_> {
    async fn run(mut self, mut replies: BusSubscription, tell: &CallEventSender) {
        while !self.is_over() {
            let next = match tokio::time::timeout_at(self.ends_at(), replies.next()).await {
                Ok(next) => next,
                Err(_) => self.wait_for_straggler(&mut replies).await,
            };
            let Some(first) = next else { break };
            let messages =
                batch::collect_batch(first, &mut replies, self.outstanding_count()).await;
            self.handle_messages(messages, tell).await;
        }
        let _ = tell
            .send(CallEvent::Finished(Box::new(self.into_stats())))
            .await;
    }

    fn is_over(&self) -> bool {
        self.outstanding_count() == 0
    }

    /// Maximum number of outstanding replies; `usize::MAX` when the number of nodes is unknown.
    fn outstanding_count(&self) -> usize {
        let all = match self.expected {
            Some(_) => self.awaited.len(),
            None if self.nobody => 0,
            None => usize::MAX,
        };
        let had = self.tally.ok + self.tally.failed;
        let wanted = self.call.expect.map(|count| count.saturating_sub(had));
        wanted.map_or(all, |wanted| wanted.min(all))
    }

    /// Waits for a late reply to a broadcast after the quiet window. Silence may mean a slow link, so probe the broker with a request that it answers
    /// itself ("no responders"): messages are ordered, so everything it sent before arrives before that answer.
    async fn wait_for_straggler(&mut self, replies: &mut BusSubscription) -> Option<BusMessage> {
        if !self.is_open_ended() {
            return None;
        }
        let word = Uuid::now_v7().simple().to_string();
        let answer = self.answers.of_confirmation(&word);
        let confirm = subject::CONFIRM_SUBJECT;
        let asked = self
            .party
            .bus
            .publish_with_reply(confirm, &answer, Bytes::new())
            .await;
        let latest = self.latest_end() + ROUND_TRIP_TIMEOUT;
        loop {
            let Ok(next) = tokio::time::timeout_at(latest, replies.next()).await else {
                self.behind = asked.is_ok();
                return None;
            };
            match next {
                Some(message) if message.subject() == answer => return None,
                // The confirmation of an earlier probe.
                Some(message) if self.answers.is_confirmation(message.subject()) => {}
                next => return next,
            }
        }
    }

    fn is_open_ended(&self) -> bool {
        self.expected.is_none() && self.call.expect.is_none()
    }

    /// The end of the wait if no further message arrives.
    fn ends_at(&self) -> Instant {
        match self.last {
            Some(last) if self.is_open_ended() => {
                self.latest_end().min(last + self.party.window.quiet)
            }
            _ => self.latest_end(),
        }
    }

    /// The latest end of the wait: while uncounted replies keep arriving, the wait is extended.
    fn latest_end(&self) -> Instant {
        let wait = self.call.wait;
        let longest = match self.last {
            Some(_) if self.is_open_ended() => wait.max(self.party.window.most),
            _ => wait,
        };
        self.published + longest
    }

    async fn handle_messages(&mut self, messages: Vec<BusMessage>, tell: &CallEventSender) {
        let (silences, answers): (Vec<_>, Vec<_>) =
            messages.into_iter().partition(BusMessage::is_no_responders);
        for silence in silences {
            self.handle_no_responders(silence.subject(), tell).await;
        }
        // A node sends progress before its reply, so report it before the reply.
        let (told, replies): (Vec<Bytes>, Vec<Bytes>) = answers
            .iter()
            .map(|answer| answer.payload().clone())
            .partition(|bytes| {
                self.call.stream && EnvelopeKind::of_inbox_message(bytes) == EnvelopeKind::Progress
            });
        let question = ReplyExpectation {
            request: self.id,
            agent: self.call.agent.clone(),
            action: self.call.action.clone(),
        };
        let (trust, expected) = (self.party.trust(), question.as_expected());
        for progress in open_progress(
            &told,
            &expected,
            &trust,
            &self.party.tokens,
            unix_millis_now(),
        ) {
            self.handle_progress(progress, tell).await;
        }
        let came = Instant::now();
        let opened = open_replies::open_reply_batch(self.party, &question, replies).await;
        let at = Instant::now();
        let count = u32::try_from(opened.len()).unwrap_or(u32::MAX).max(1);
        let verifying = (at - came) / count;
        for reply in opened {
            self.handle_reply(reply, (at, verifying), tell).await;
        }
    }

    async fn handle_no_responders(&mut self, reply_subject: &str, tell: &CallEventSender) {
        let Some(node) = self.asked.get(reply_subject) else {
            // Other subjects are late confirmations, or a node that reports itself absent.
            self.nobody |= reply_subject == self.answers.of_broadcast();
            return;
        };
        if self.awaited.remove(node) {
            self.absent.insert(node.clone());
            let _ = tell.send(CallEvent::Absent(node.clone())).await;
        }
    }

    /// Handles a progress message; ignores nodes that have already replied.
    async fn handle_progress(
        &mut self,
        progress: Result<ProgressMessage, MessageRefusal>,
        tell: &CallEventSender,
    ) {
        let refused = match progress {
            Ok(progress) if self.is_awaited(&progress.sender) => {
                self.last = Some(Instant::now());
                if let Some(tale) = self.telling.record_progress(progress) {
                    let _ = tell.send(CallEvent::Progress(Box::new(tale))).await;
                }
                return;
            }
            Ok(_) => "stray_progress",
            Err(refusal) => refusal.reason_code(),
        };
        self.tally.disbelieved += 1;
        let _ = tell.send(CallEvent::Disbelieved(refused)).await;
    }

    fn is_awaited(&self, node: &Identity) -> bool {
        match self.expected {
            Some(_) => self.awaited.contains(node),
            None => !self.answered.contains(node),
        }
    }

    async fn handle_reply(
        &mut self,
        reply: Result<OpenReply, MessageRefusal>,
        (at, verifying): (Instant, Duration),
        tell: &CallEventSender,
    ) {
        let reply = match reply {
            Ok(opened) => {
                self.party.note_sender(&opened.sender);
                opened.reply
            }
            Err(refusal) => {
                self.tally.disbelieved += 1;
                let _ = tell
                    .send(CallEvent::Disbelieved(refusal.reason_code()))
                    .await;
                return;
            }
        };
        let sender = reply.sender.clone();
        let answer = Box::new(ReceivedReply {
            reply,
            after: at - self.published,
            verifying,
        });
        let first = self.answered.insert(sender.clone());
        let welcome = first && (self.expected.is_none() || self.awaited.remove(&sender));
        if !welcome {
            self.unexpected.insert(sender.clone());
            let _ = tell.send(CallEvent::Unexpected(answer)).await;
            return;
        }
        self.last = Some(at);
        if let Some(said) = answer.reply.progress
            && self.call.stream
            && let Some(tale) = self.telling.finish_node(&sender, said)
        {
            let _ = tell.send(CallEvent::Progress(Box::new(tale))).await;
        }
        if answer.is_ok() {
            self.tally.ok += 1;
        } else {
            self.tally.failed += 1;
        }
        let _ = tell.send(CallEvent::Reply(answer)).await;
    }

    fn into_stats(self) -> CallStats {
        let mut missing = self.awaited;
        missing.extend(self.absent.iter().cloned());
        missing.extend(self.silent);
        let end = self.last.unwrap_or_else(Instant::now);
        let slow = self.behind.then_some(ConnectionDisturbance::SlowConsumer);
        CallStats {
            request: self.id,
            expected: self.expected,
            ok: self.tally.ok,
            failed: self.tally.failed,
            missing,
            absent: self.absent,
            unexpected: self.unexpected,
            disbelieved: self.tally.disbelieved,
            incomplete: self.party.bus.disturbed_since(self.mark).or(slow),
            signing: self.signing,
            publishing: self.published - self.begun,
            waiting: end.saturating_duration_since(self.published),
        }
    }
}
