//! One call, from the signed question to the last answer.
//!
//! ```text
//! subscribe _R.<key>.<request>.>  ->  publish  ->  receive what is there -> verify together -> tell -> ... -> finish
//! ```
//!
//! Known nodes are asked one by one, on a reply subject of their own each, so that the broker's "nobody listens" names the one
//! who is not there. They share a signature in groups: a message names its whole group, so that one signature serves many nodes
//! without every node having to read the whole list.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use muster_bus::{Bytes, Disturbance, Mark, Message, Subscription};
use muster_wire::identity::Identity;
use muster_wire::progress::Progress;
use muster_wire::sign::{Kind, OpenReply, Refusal, open_progress};
use muster_wire::subject::{self, AnswerAddress};
use tokio::sync::mpsc;
use tokio::time::Instant;
use uuid::Uuid;

use crate::call::{Aim, Answers, Call};
use crate::error::ClientError;
use crate::event::{Answer, Event};
use crate::handful;
use crate::letter::letters;
use crate::open::{self, Question};
use crate::party::{Party, now};
use crate::secrets::{self, Ready};
use crate::stats::Stats;
use crate::telling::Telling;

/// How long after the end of waiting the broker may say that it has sent everything.
const ROUND_TRIP: Duration = Duration::from_secs(1);

type Sender = mpsc::Sender<Event>;

/// Makes the call and tells everything; an error means that it could not be made.
pub(crate) async fn run(party: &Arc<Party>, call: Call, tell: &Sender) -> Result<(), ClientError> {
    party.check_granted(&call.agent)?;
    let Ready { call, silent } = secrets::ready(party, call).await?;
    let id = Uuid::now_v7();
    if call.answers != Answers::Here {
        return dismiss(party, &call, (id, silent), tell).await;
    }
    let answers = AnswerAddress::of_request(&party.signer.public().to_string(), &id);
    let mark = party.bus.mark();
    let replies = party.bus.subscribe(&answers.pattern()).await?;
    let begun = Instant::now();
    let Published { asked, signing } = publish(party, &call, id).await?;
    let awaited = match &call.aim {
        Aim::Nodes(nodes) => Some(nodes.clone()),
        Aim::Filter(_) => None,
    };
    let expected = awaited.as_ref().map(|nodes| nodes | &silent);
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
        tally: Tally::default(),
        telling: Telling::default(),
        nobody: false,
        behind: false,
        last: None,
    };
    gathering.run(replies, tell).await;
    Ok(())
}

/// A question that is out.
struct Published {
    /// Which node is asked on which reply subject.
    asked: HashMap<String, Identity>,
    /// How long writing and signing took.
    signing: Duration,
}

/// Sends the question.
async fn publish(party: &Party, call: &Call, id: Uuid) -> Result<Published, ClientError> {
    let mut published = Published {
        asked: HashMap::new(),
        signing: Duration::ZERO,
    };
    let mut letters = letters(&party.signer, &party.collective, call, id, now());
    loop {
        let begun = Instant::now();
        let Some(letter) = letters.next() else { break };
        let letter = letter?;
        published.signing += begun.elapsed();
        let sealed = Bytes::from(letter.sealed);
        for to in letter.to {
            match &to.reply_to {
                Some(reply_to) => party.bus.ask(&to.subject, reply_to, sealed.clone()).await?,
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

/// Asks, and leaves the answers to somebody else, or to nobody.
async fn dismiss(
    party: &Party,
    call: &Call,
    (id, missing): (Uuid, BTreeSet<Identity>),
    tell: &Sender,
) -> Result<(), ClientError> {
    if let Answers::Elsewhere(address) = &call.answers {
        party.answer_address(address.prefix())?;
    }
    let begun = Instant::now();
    let signing = publish(party, call, id).await?.signing;
    // Nothing will tell whether the question arrived; so at least the broker shall have it.
    party.bus.confirm().await?;
    let publishing = begun.elapsed();
    let told = Event::Published {
        request: id,
        expected: None,
    };
    let _ = tell.send(told).await;
    let stats = Stats {
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
    let _ = tell.send(Event::Finished(Box::new(stats))).await;
    Ok(())
}

/// A call whose question is out.
struct Gathering<'a> {
    party: &'a Arc<Party>,
    call: &'a Call,
    id: Uuid,
    answers: AnswerAddress,
    mark: Mark,
    begun: Instant,
    signing: Duration,
    published: Instant,
    /// Nodes by the reply subject that is theirs.
    asked: HashMap<String, Identity>,
    /// Expected, and not asked: they did not tell the key that the question would be sealed for.
    silent: BTreeSet<Identity>,
    /// Expected and not yet heard of.
    awaited: BTreeSet<Identity>,
    expected: Option<usize>,
    answered: BTreeSet<Identity>,
    absent: BTreeSet<Identity>,
    unexpected: BTreeSet<Identity>,
    tally: Tally,
    telling: Telling,
    /// The broker says that nobody listens to the broadcast.
    nobody: bool,
    /// When waiting ended, more was on its way.
    behind: bool,
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
            let next = match tokio::time::timeout_at(self.ends_at(), replies.next()).await {
                Ok(next) => next,
                Err(_) => self.straggler(&mut replies).await,
            };
            let Some(first) = next else { break };
            let messages = handful::take(first, &mut replies, self.outstanding()).await;
            self.take(messages, tell).await;
        }
        let _ = tell.send(Event::Finished(Box::new(self.stats()))).await;
    }

    fn is_over(&self) -> bool {
        self.outstanding() == 0
    }

    /// How many answers may still come that are waited for; as many as there can be where nobody knows.
    fn outstanding(&self) -> usize {
        let all = match self.expected {
            Some(_) => self.awaited.len(),
            None if self.nobody => 0,
            None => usize::MAX,
        };
        let had = self.tally.ok + self.tally.failed;
        let wanted = self.call.expect.map(|count| count.saturating_sub(had));
        wanted.map_or(all, |wanted| wanted.min(all))
    }

    /// What comes although it has been quiet, where nobody knows how many there are: a line is quiet too that is slow. So the broker is
    /// asked what it answers by itself, that nobody listens; everything that it has sent before is here before that answer.
    async fn straggler(&mut self, replies: &mut Subscription) -> Option<Message> {
        if !self.is_open_ended() {
            return None;
        }
        let word = Uuid::now_v7().simple().to_string();
        let answer = self.answers.of_confirmation(&word);
        let confirm = subject::CONFIRM;
        let asked = self.party.bus.ask(confirm, &answer, Bytes::new()).await;
        let latest = self.latest() + ROUND_TRIP;
        loop {
            let Ok(next) = tokio::time::timeout_at(latest, replies.next()).await else {
                self.behind = asked.is_ok();
                return None;
            };
            match next {
                Some(message) if message.subject() == answer => return None,
                // Of an earlier silence.
                Some(message) if self.answers.is_confirmation(message.subject()) => {}
                next => return next,
            }
        }
    }

    fn is_open_ended(&self) -> bool {
        self.expected.is_none() && self.call.expect.is_none()
    }

    /// When waiting ends if nothing more comes.
    fn ends_at(&self) -> Instant {
        match self.last {
            Some(last) if self.is_open_ended() => self.latest().min(last + self.party.window.quiet),
            _ => self.latest(),
        }
    }

    /// When waiting ends, whatever comes: while answers come that nobody has counted, time is given for more of them.
    fn latest(&self) -> Instant {
        let wait = self.call.wait;
        let longest = match self.last {
            Some(_) if self.is_open_ended() => wait.max(self.party.window.most),
            _ => wait,
        };
        self.published + longest
    }

    async fn take(&mut self, messages: Vec<Message>, tell: &Sender) {
        let (silences, answers): (Vec<_>, Vec<_>) =
            messages.into_iter().partition(Message::is_no_responders);
        for silence in silences {
            self.nobody_at(silence.subject(), tell).await;
        }
        // A node's progress comes before its answer, and is told before it.
        let (told, replies): (Vec<Bytes>, Vec<Bytes>) = answers
            .iter()
            .map(|answer| answer.payload().clone())
            .partition(|bytes| self.call.stream && Kind::of_answer(bytes) == Kind::Progress);
        let question = Question {
            request: self.id,
            agent: self.call.agent.clone(),
            action: self.call.action.clone(),
        };
        let (trust, expected) = (self.party.trust(), question.expected());
        for progress in open_progress(&told, &expected, &trust, &self.party.tokens, now()) {
            self.hear(progress, tell).await;
        }
        let came = Instant::now();
        let opened = open::open(self.party, &question, replies).await;
        let at = Instant::now();
        let count = u32::try_from(opened.len()).unwrap_or(u32::MAX).max(1);
        let verifying = (at - came) / count;
        for reply in opened {
            self.judge(reply, (at, verifying), tell).await;
        }
    }

    async fn nobody_at(&mut self, reply_subject: &str, tell: &Sender) {
        let Some(node) = self.asked.get(reply_subject) else {
            // Other subjects are late confirmations, or a node that says of itself that it is absent.
            self.nobody |= reply_subject == self.answers.of_broadcast();
            return;
        };
        if self.awaited.remove(node) {
            self.absent.insert(node.clone());
            let _ = tell.send(Event::Absent(node.clone())).await;
        }
    }

    /// Only who still owes an answer is listened to.
    async fn hear(&mut self, progress: Result<Progress, Refusal>, tell: &Sender) {
        let refused = match progress {
            Ok(progress) if self.owes(&progress.sender) => {
                self.last = Some(Instant::now());
                if let Some(tale) = self.telling.hear(progress) {
                    let _ = tell.send(Event::Progress(Box::new(tale))).await;
                }
                return;
            }
            Ok(_) => "stray_progress",
            Err(refusal) => refusal.word(),
        };
        self.tally.disbelieved += 1;
        let _ = tell.send(Event::Disbelieved(refused)).await;
    }

    fn owes(&self, node: &Identity) -> bool {
        match self.expected {
            Some(_) => self.awaited.contains(node),
            None => !self.answered.contains(node),
        }
    }

    async fn judge(
        &mut self,
        reply: Result<OpenReply, Refusal>,
        (at, verifying): (Instant, Duration),
        tell: &Sender,
    ) {
        let reply = match reply {
            Ok(opened) => {
                self.party.note(&opened.sender);
                opened.reply
            }
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
            verifying,
        });
        let first = self.answered.insert(sender.clone());
        let welcome = first && (self.expected.is_none() || self.awaited.remove(&sender));
        if !welcome {
            self.unexpected.insert(sender.clone());
            let _ = tell.send(Event::Unexpected(answer)).await;
            return;
        }
        self.last = Some(at);
        if let Some(said) = answer.reply.progress
            && self.call.stream
            && let Some(tale) = self.telling.end(&sender, said)
        {
            let _ = tell.send(Event::Progress(Box::new(tale))).await;
        }
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
        missing.extend(self.silent);
        let end = self.last.unwrap_or_else(Instant::now);
        let slow = self.behind.then_some(Disturbance::SlowConsumer);
        Stats {
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
