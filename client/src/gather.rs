//! One call, from the signed question to the last answer.
//!
//! ```text
//! subscribe inbox.<request>.*  ->  publish  ->  receive what is there -> verify together -> tell -> ... -> finish
//! ```
//!
//! Known nodes are asked one by one, on a reply subject of their own each, so that the broker's "nobody listens" names the one
//! who is not there. They share a signature in groups: a message names its whole group, so that one signature serves many nodes
//! without every node having to read the whole list.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use muster_bus::{Bytes, Mark, Message, Subscription};
use muster_wire::identity::Identity;
use muster_wire::request::{Request, Target};
use muster_wire::sign::{Expected, Kind, OpenReply, Refusal, open_replies, seal};
use muster_wire::subject;
use tokio::sync::mpsc;
use tokio::time::Instant;
use uuid::Uuid;

use crate::call::{Aim, Call};
use crate::error::ClientError;
use crate::event::{Answer, Event};
use crate::party::{Party, now};
use crate::stats::Stats;

/// Nodes that share one signature. More would save signatures, and cost every node the reading of longer lists.
const GROUP: usize = 64;

/// Replies that are verified together: enough for the batch to pay, few enough for the screen to move.
const BATCH: usize = 1024;

type Sender = mpsc::Sender<Event>;

/// Makes the call and tells everything; an error means that it could not be made.
pub(crate) async fn run(party: &Arc<Party>, call: Call, tell: &Sender) -> Result<(), ClientError> {
    party.check_granted(&call.agent)?;
    let id = Uuid::now_v7();
    let inbox = subject::inbox(&party.signer.public().to_string(), &id);
    let mark = party.bus.mark();
    let replies = party.bus.subscribe(&format!("{inbox}.*")).await?;
    let begun = Instant::now();
    let asked = publish(party, &call, id, &inbox).await?;
    let expected = match &call.aim {
        Aim::Nodes(nodes) => Some(nodes.clone()),
        Aim::Filter(_) => None,
    };
    let _ = tell
        .send(Event::Published {
            request: id,
            expected: expected.clone(),
        })
        .await;
    let gathering = Gathering {
        party,
        call: &call,
        id,
        mark,
        begun,
        published: Instant::now(),
        asked,
        awaited: expected.clone().unwrap_or_default(),
        expected: expected.as_ref().map(BTreeSet::len),
        answered: BTreeSet::new(),
        absent: BTreeSet::new(),
        unexpected: BTreeSet::new(),
        tally: Tally::default(),
        nobody: false,
        last: None,
    };
    gathering.run(replies, tell).await;
    Ok(())
}

/// Sends the question. Answers which node is asked on which reply subject.
async fn publish(
    party: &Party,
    call: &Call,
    id: Uuid,
    inbox: &str,
) -> Result<HashMap<String, Identity>, ClientError> {
    let mut asked = HashMap::new();
    match &call.aim {
        Aim::Filter(filter) => {
            let target = Target::Filter(filter.clone());
            let sealed = sealed(party, call, id, target)?;
            let to = subject::broadcast(&party.collective, &call.agent, &call.action);
            party.bus.ask(&to, &format!("{inbox}.all"), sealed).await?;
        }
        Aim::Nodes(nodes) => {
            let nodes: Vec<&Identity> = nodes.iter().collect();
            for group in nodes.chunks(GROUP) {
                let names = group.iter().map(|node| (*node).clone()).collect();
                let sealed = sealed(party, call, id, Target::Nodes(names))?;
                for node in group {
                    let reply_to = format!("{inbox}.{}", asked.len());
                    let to = subject::node(&party.collective, &call.agent, &call.action, node);
                    party.bus.ask(&to, &reply_to, sealed.clone()).await?;
                    asked.insert(reply_to, (*node).clone());
                }
            }
        }
    }
    party.bus.flush().await?;
    Ok(asked)
}

fn sealed(party: &Party, call: &Call, id: Uuid, target: Target) -> Result<Bytes, ClientError> {
    let request = Request {
        id,
        caller: party.signer.identity().clone(),
        collective: party.collective.clone(),
        agent: call.agent.clone(),
        action: call.action.clone(),
        target,
        issued_at: now(),
        ttl: millis(call.ttl).max(1),
        timeout: call.timeout.map(millis),
        reply: true,
        data: call.data.clone(),
    };
    Ok(seal(Kind::Request, &request, &party.signer)?.into())
}

/// A call whose question is out.
struct Gathering<'a> {
    party: &'a Party,
    call: &'a Call,
    id: Uuid,
    mark: Mark,
    begun: Instant,
    published: Instant,
    /// Nodes by the reply subject that is theirs.
    asked: HashMap<String, Identity>,
    /// Expected and not yet heard of.
    awaited: BTreeSet<Identity>,
    expected: Option<usize>,
    answered: BTreeSet<Identity>,
    absent: BTreeSet<Identity>,
    unexpected: BTreeSet<Identity>,
    tally: Tally,
    /// The broker says that nobody listens to the broadcast.
    nobody: bool,
    last: Option<Instant>,
}

#[derive(Default)]
struct Tally {
    ok: usize,
    failed: usize,
    disbelieved: usize,
}

impl Gathering<'_> {
    async fn run(mut self, mut replies: Subscription, tell: &Sender) {
        while !self.is_over() {
            let Ok(Some(first)) = tokio::time::timeout_at(self.ends_at(), replies.next()).await
            else {
                break;
            };
            let mut messages = vec![first];
            while messages.len() < BATCH
                && let Some(message) = replies.try_next()
            {
                messages.push(message);
            }
            self.take(messages, tell).await;
        }
        let _ = tell.send(Event::Finished(Box::new(self.stats()))).await;
    }

    fn is_over(&self) -> bool {
        match (self.expected, self.call.expect) {
            (Some(_), _) => self.awaited.is_empty(),
            (None, Some(count)) => self.nobody || self.answered.len() >= count,
            (None, None) => self.nobody,
        }
    }

    /// When waiting ends if nothing more comes.
    fn ends_at(&self) -> Instant {
        let latest = self.published + self.call.wait;
        let open_ended = self.expected.is_none() && self.call.expect.is_none();
        match self.last {
            Some(last) if open_ended => latest.min(last + self.party.window.quiet),
            _ => latest,
        }
    }

    async fn take(&mut self, messages: Vec<Message>, tell: &Sender) {
        let (silences, answers): (Vec<_>, Vec<_>) =
            messages.into_iter().partition(Message::is_no_responders);
        for silence in silences {
            self.nobody_at(silence.subject(), tell).await;
        }
        let payloads: Vec<&Bytes> = answers.iter().map(Message::payload).collect();
        let expected = Expected {
            request: self.id,
            agent: &self.call.agent,
            action: &self.call.action,
        };
        let trust = self.party.trust();
        let opened = open_replies(&payloads, &expected, &trust, &self.party.tokens, now());
        let at = Instant::now();
        for reply in opened {
            self.judge(reply, at, tell).await;
        }
    }

    async fn nobody_at(&mut self, reply_subject: &str, tell: &Sender) {
        let Some(node) = self.asked.get(reply_subject) else {
            self.nobody = true;
            return;
        };
        if self.awaited.remove(node) {
            self.absent.insert(node.clone());
            let _ = tell.send(Event::Absent(node.clone())).await;
        }
    }

    async fn judge(&mut self, reply: Result<OpenReply, Refusal>, at: Instant, tell: &Sender) {
        let reply = match reply {
            Ok(opened) => opened.reply,
            Err(refusal) => {
                self.tally.disbelieved += 1;
                let _ = tell.send(Event::Disbelieved(refusal.word())).await;
                return;
            }
        };
        let sender = reply.sender.clone();
        let answer = Box::new(Answer {
            reply,
            after: at - self.published,
        });
        let first = self.answered.insert(sender.clone());
        let welcome = first && (self.expected.is_none() || self.awaited.remove(&sender));
        if !welcome {
            self.unexpected.insert(sender);
            let _ = tell.send(Event::Unexpected(answer)).await;
            return;
        }
        self.last = Some(at);
        if answer.is_ok() {
            self.tally.ok += 1;
        } else {
            self.tally.failed += 1;
        }
        let _ = tell.send(Event::Reply(answer)).await;
    }

    fn stats(self) -> Stats {
        let mut missing = self.awaited;
        missing.extend(self.absent.iter().cloned());
        let end = self.last.unwrap_or_else(Instant::now);
        Stats {
            request: self.id,
            expected: self.expected,
            ok: self.tally.ok,
            failed: self.tally.failed,
            missing,
            absent: self.absent,
            unexpected: self.unexpected,
            disbelieved: self.tally.disbelieved,
            incomplete: self.party.bus.disturbed_since(self.mark),
            publishing: self.published - self.begun,
            waiting: end.saturating_duration_since(self.published),
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
