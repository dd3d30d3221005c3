//! Answers to requests that were sent elsewhere and that want them here: `--reply-to`. Verified as a call's own answers are.
//!
//! Nothing is kept for whoever does not listen: who waits for answers must listen before the request is sent.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use muster_bus::{Disturbance, Mark, Message, Subscription};
use muster_wire::identity::{Identity, Name};
use muster_wire::sign::{Expected, Kind, OpenReply, Refusal, open_progress, open_replies};
use muster_wire::subject::AnswerAddress;
use tokio::time::Instant;
use uuid::Uuid;

use crate::client::Client;
use crate::error::ClientError;
use crate::event::{Answer, Event};
use crate::handful::MOST;
use crate::party::{Party, now};
use crate::telling::Telling;

/// What is listened for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Awaited {
    /// The agent that is asked.
    pub agent: Name,
    /// The action that is asked.
    pub action: Name,
    /// The request; any, when absent.
    pub request: Option<Uuid>,
}

/// A place where answers arrive.
#[derive(Debug)]
pub struct Mail {
    party: Arc<Party>,
    awaited: Awaited,
    address: AnswerAddress,
    arriving: Subscription,
    mark: Mark,
    begun: Instant,
    /// Who has answered which request.
    answered: BTreeSet<(Uuid, Identity)>,
    telling: HashMap<Uuid, Telling>,
    /// What has arrived and was not handed out.
    events: VecDeque<Event>,
}

impl Client {
    /// The caller's own address with this name: 1 to 64 letters, digits, `-` and `_`. A whole address of the caller's own is taken too.
    pub fn mailbox(&self, name: &str) -> Result<AnswerAddress, ClientError> {
        self.party.answer_address(name)
    }

    /// Listens at an address of the caller's own. Every answer that is sent there after this returns arrives.
    pub async fn listen(
        &self,
        address: &AnswerAddress,
        awaited: Awaited,
    ) -> Result<Mail, ClientError> {
        let party = Arc::clone(&self.party);
        let own = party.answer_address(address.prefix())?;
        let mark = party.bus.mark();
        let arriving = party.bus.subscribe(&own.pattern()).await?;
        party.bus.confirm().await?;
        Ok(Mail {
            party,
            awaited,
            address: own,
            arriving,
            mark,
            begun: Instant::now(),
            answered: BTreeSet::new(),
            telling: HashMap::new(),
            events: VecDeque::new(),
        })
    }
}

impl Mail {
    /// Where it listens.
    pub fn subject(&self) -> &str {
        self.address.prefix()
    }

    /// Whether answers may have been lost on the way since it listens.
    pub fn incomplete(&self) -> Option<Disturbance> {
        self.party.bus.disturbed_since(self.mark)
    }

    /// What arrives next: [`Event::Reply`], [`Event::Progress`], [`Event::Unexpected`] for a node that answers the same request again,
    /// or [`Event::Disbelieved`]. `None` when the connection is closed. Nothing is lost when it is not awaited to its end.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            let mut messages = vec![self.arriving.next().await?];
            while messages.len() < MOST
                && let Some(message) = self.arriving.try_next()
            {
                messages.push(message);
            }
            self.open(&messages);
        }
    }

    fn open(&mut self, messages: &[Message]) {
        let (told, replies): (Vec<_>, Vec<_>) = messages
            .iter()
            .map(Message::payload)
            .partition(|bytes| Kind::of_answer(bytes) == Kind::Progress);
        let Awaited {
            agent,
            action,
            request,
        } = &self.awaited;
        let expected = Expected {
            request: *request,
            agent,
            action,
        };
        let party = Arc::clone(&self.party);
        let trust = party.trust();
        let told = open_progress(&told, &expected, &trust, &party.tokens, now());
        let came = Instant::now();
        let replies = open_replies(&replies, &expected, &trust, &party.tokens, now());
        let count = u32::try_from(replies.len()).unwrap_or(u32::MAX).max(1);
        let verifying = came.elapsed() / count;
        for progress in told {
            let heard = match progress {
                Ok(progress) => {
                    let telling = self.telling.entry(progress.request).or_default();
                    telling.hear(progress).map(Box::new).map(Event::Progress)
                }
                Err(refusal) => Some(Event::Disbelieved(refusal.word())),
            };
            self.events.extend(heard);
        }
        let after = self.begun.elapsed();
        for reply in replies {
            match reply {
                Ok(OpenReply { reply, .. }) => self.answer(Answer {
                    reply,
                    after,
                    verifying,
                }),
                Err(refusal) => self.refuse(&refusal),
            }
        }
    }

    fn answer(&mut self, answer: Answer) {
        let (request, node) = (answer.reply.request, answer.reply.sender.clone());
        if !self.answered.insert((request, node.clone())) {
            self.events.push_back(Event::Unexpected(Box::new(answer)));
            return;
        }
        if let Some(said) = answer.reply.progress
            && let Some(telling) = self.telling.get_mut(&request)
            && let Some(tale) = telling.end(&node, said)
        {
            self.events.push_back(Event::Progress(Box::new(tale)));
        }
        self.events.push_back(Event::Reply(Box::new(answer)));
    }

    fn refuse(&mut self, refusal: &Refusal) {
        self.events.push_back(Event::Disbelieved(refusal.word()));
    }
}
