//! A rollout of runs, while it goes on: asks whoever may be asked, listens to all, and looks after those who fall silent.
//!
//! A node that is at work tells how far it is, or is asked for it: every third of the time that silence is borne, those who said
//! nothing are asked for the agent's `status`. Whoever answers that is alive, and keeps its place however slow it is. Where nothing
//! is heard for the whole time, the node is given up, and the others go on. A question whose answer may have been lost, because the
//! node's daemon was away for a moment or knows nothing of the run, is asked again with the same identity.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use muster_wire::identity::{Identity, NameError};
use muster_wire::status::Reason;
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::{Instant, Interval, MissedTickBehavior};
use uuid::Uuid;

use super::outcome::{NO_ANSWER, NOT_CONNECTED, NOT_SENT, Outcome, UNFINISHED};
use super::schedule::{Halt, Schedule, Shape};
use crate::call::{Aim, Call};
use crate::client::Client;
use crate::error::ClientError;
use crate::event::{Answer, Event, Events};
use crate::party::now;

/// The agent that is asked.
const AGENT: &str = "puppet";
/// A node that is not there is asked again after this long.
const PAUSE: Duration = Duration::from_secs(1);
/// How often silence is looked at: neither in a busy loop nor late by much.
const TICKS: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));
/// Who waits this long for another run of its own node blocks nobody else any more.
const LOCKED: Duration = Duration::from_secs(2);
/// Events that wait to be taken in.
const EVENTS: usize = 1024;

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub struct Mission {
    /// The nodes in their order, and the identity of the run of each.
    pub runs: Vec<(Identity, Uuid)>,
    /// The inputs of `runonce`, but for the run's identity.
    pub data: Map<String, Value>,
    /// How many at a time, and when it ends early.
    pub shape: Shape,
    /// How long a node may be silent before it is given up.
    pub silence: Duration,
    /// How long one node's run may take, its waiting among it; as long as the agent's schema says when absent.
    pub timeout: Option<Duration>,
    /// How long an answer is waited for; should exceed the former.
    pub wait: Duration,
    /// How long a node may take until it begins to wait.
    pub ttl: Duration,
}

/// Something happened.
#[derive(Debug)]
pub enum News {
    /// This node will be asked when the next news are asked for: whoever keeps a journal has time to write it before.
    Asked(Identity),
    /// The question is out.
    Sent {
        /// The node.
        node: Identity,
        /// The request's id.
        request: Uuid,
    },
    /// The node tells how far its run is: `waiting_lock`, `waiting_permit`, `starting`, `applying`.
    State {
        /// The node.
        node: Identity,
        /// The state.
        state: String,
    },
    /// A node's run has ended, or the node is given up.
    Ended {
        /// The node.
        node: Identity,
        /// The identity of its run.
        run: Uuid,
        /// How it ended.
        outcome: Outcome,
        /// The answer, if there was one.
        answer: Option<Box<Answer>>,
    },
    /// An answer that is not believed, in a stable word.
    Disbelieved(&'static str),
    /// Nobody else is asked.
    Halted(Halt),
    /// A question could not be sent.
    Failed(ClientError),
}

/// A rollout of runs. Dropping it ends it at the caller; nodes that were asked go on.
#[derive(Debug)]
pub struct Campaign {
    client: Client,
    mission: Mission,
    schedule: Schedule,
    runs: BTreeMap<Identity, Uuid>,
    flights: BTreeMap<Identity, Flight>,
    /// Told to be asked, and not sent yet; or sent, and not known to be out.
    asking: Option<Asking>,
    ready: VecDeque<News>,
    tell: mpsc::Sender<Heard>,
    heard: mpsc::Receiver<Heard>,
    ticks: Interval,
    probed: Instant,
}

#[derive(Debug)]
enum Asking {
    Told(Identity),
    Sending(Identity),
}

/// What came of a question to one node.
#[derive(Debug)]
enum Heard {
    /// Of the run.
    Run(Identity, Event),
    /// Of its state.
    State(Box<Answer>),
    /// It is not connected, says the broker to whoever asks for its state.
    Absent(Identity),
}

/// A node that was asked and has not ended.
#[derive(Debug)]
struct Flight {
    /// When it was asked first.
    asked: Instant,
    /// When it was last heard of.
    heard: Instant,
    /// The broker says that it is not there.
    absent: bool,
    /// Since when it waits for another run of its own.
    locked: Option<Instant>,
    /// When it is asked again.
    again: Option<Instant>,
    /// How many times in a row it said that it knows nothing of the run.
    strange: u32,
    calls: Vec<Listener>,
}

/// A call that ends with its owner.
#[derive(Debug)]
struct Listener(AbortHandle);

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Client {
    /// Begins a rollout. Nobody is asked before [`Campaign::next`] is. Must be called within a tokio runtime.
    pub fn campaign(&self, mission: Mission) -> Campaign {
        let (tell, heard) = mpsc::channel(EVENTS);
        let order = mission.runs.iter().map(|(node, _)| node.clone()).collect();
        let every = (mission.silence / 12).clamp(TICKS.0, TICKS.1);
        let mut ticks = tokio::time::interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Campaign {
            client: self.clone(),
            schedule: Schedule::new(order, mission.shape),
            runs: mission.runs.iter().cloned().collect(),
            mission,
            flights: BTreeMap::new(),
            asking: None,
            ready: VecDeque::new(),
            tell,
            heard,
            ticks,
            probed: Instant::now(),
        }
    }
}

impl Campaign {
    /// What happens next; `None` when everybody who was asked has ended and nobody else is. Nothing is lost when it is not awaited
    /// to its end.
    pub async fn next(&mut self) -> Option<News> {
        loop {
            if let Some(Asking::Told(node)) = &self.asking {
                let node = node.clone();
                self.send(&node);
            }
            if let Some(news) = self.ready.pop_front() {
                return Some(news);
            }
            if let Some(news) = self.ask_next() {
                return Some(news);
            }
            if self.flights.is_empty() {
                return None;
            }
            tokio::select! {
                Some(heard) = self.heard.recv() => self.hear(heard),
                _ = self.ticks.tick() => self.look_after(),
            }
        }
    }

    /// Asks nobody else. Those who were asked go on, and are waited for.
    pub fn halt(&mut self, why: Halt) {
        self.schedule.halt(why);
    }

    /// Why nobody else is asked, if so.
    pub fn halted(&self) -> Option<Halt> {
        self.schedule.halted()
    }

    /// How many were asked and have not ended.
    pub fn under_way(&self) -> usize {
        self.schedule.under_way()
    }

    /// Those who were never asked, in their order.
    pub fn left(&self) -> impl Iterator<Item = &Identity> {
        self.schedule.left()
    }

    /// Whoever is to be asked next: again, or for the first time. One question goes out after the other.
    fn ask_next(&mut self) -> Option<News> {
        if self.asking.is_some() {
            return None;
        }
        let now = Instant::now();
        let due = |flight: &Flight| flight.again.is_some_and(|again| again <= now);
        let again = self.flights.iter_mut().find(|(_, flight)| due(flight));
        let node = if let Some((node, flight)) = again {
            flight.again = None;
            node.clone()
        } else {
            let node = self.schedule.ask()?;
            self.flights.insert(node.clone(), Flight::new());
            node
        };
        self.asking = Some(Asking::Told(node.clone()));
        Some(News::Asked(node))
    }

    fn send(&mut self, node: &Identity) {
        self.asking = None;
        let call = self.call(node);
        let Some(flight) = self.flights.get_mut(node) else {
            return;
        };
        match call {
            Ok(call) => {
                let events = self.client.call(call);
                flight
                    .calls
                    .push(forward(events, node.clone(), self.tell.clone()));
                self.asking = Some(Asking::Sending(node.clone()));
            }
            Err(error) => self.unsent(node, error.into()),
        }
    }

    fn call(&self, node: &Identity) -> Result<Call, NameError> {
        let mut data = self.mission.data.clone();
        if let Some(run) = self.runs.get(node) {
            data.insert("run".to_owned(), run.to_string().into());
        }
        let aim = Aim::Nodes([node.clone()].into());
        Ok(Call {
            data,
            stream: true,
            timeout: self.mission.timeout,
            wait: self.mission.wait,
            ttl: self.mission.ttl,
            ..Call::new(AGENT, "runonce", aim)?
        })
    }

    fn hear(&mut self, heard: Heard) {
        match heard {
            Heard::Run(node, event) => self.hear_run(&node, event),
            Heard::State(answer) => self.hear_state(&answer),
            Heard::Absent(node) => self.absent(&node),
        }
    }

    fn hear_run(&mut self, node: &Identity, event: Event) {
        if matches!(&self.asking, Some(Asking::Sending(sending)) if sending == node) {
            // Whatever is heard of the call, it is out or over.
            self.asking = None;
        }
        let Some(flight) = self.flights.get_mut(node) else {
            return;
        };
        match event {
            Event::Published { request, .. } => {
                let node = node.clone();
                self.ready.push_back(News::Sent { node, request });
            }
            Event::Progress(tale) => {
                flight.is_there();
                let states = tale.events.iter();
                let states = states.filter_map(|event| event.get("state")?.as_str());
                for state in states.clone() {
                    flight.locked = (state == "waiting_lock").then(Instant::now);
                }
                self.schedule.set_aside(node, false);
                self.ready.extend(states.map(|state| News::State {
                    node: node.clone(),
                    state: state.to_owned(),
                }));
            }
            Event::Reply(answer) => {
                let outcome = Outcome::of(&answer.reply, now());
                // The daemon is there, and will have time for it; or the run goes on, and only waiting for it ended.
                let busy = matches!(
                    answer.reply.reason,
                    Some(Reason::Busy { .. } | Reason::Stopping)
                );
                let goes_on = busy || outcome.class == UNFINISHED;
                if goes_on && flight.asked.elapsed() < self.mission.wait {
                    flight.is_there();
                    flight.again = Some(Instant::now() + PAUSE);
                } else {
                    self.end(node, outcome, Some(answer));
                }
            }
            Event::Absent(_) => self.absent(node),
            Event::Disbelieved(word) => self.ready.push_back(News::Disbelieved(word)),
            // Nothing came in all that time; the node may be alive all the same.
            Event::Finished(stats) if !stats.missing.is_empty() && stats.absent.is_empty() => {
                let waited = self.mission.wait.as_secs();
                let why = format!("its run did not end within {waited} s");
                self.end(node, Outcome::unheard(NO_ANSWER, why), None);
            }
            Event::Finished(_) | Event::Unexpected(_) => {}
            Event::Failed(error) => self.unsent(node, error),
        }
    }

    /// The question cannot be sent, and others could not be either.
    fn unsent(&mut self, node: &Identity, error: ClientError) {
        self.schedule.halt(Halt::Broken);
        let outcome = Outcome::unheard(NOT_SENT, error.to_string());
        self.end(node, outcome, None);
        self.ready.push_back(News::Failed(error));
        self.ready.push_back(News::Halted(Halt::Broken));
    }

    /// The node is not there now. Its daemon may be starting anew.
    fn absent(&mut self, node: &Identity) {
        if let Some(flight) = self.flights.get_mut(node) {
            flight.absent = true;
            self.schedule.set_aside(node, true);
            flight.again.get_or_insert_with(|| Instant::now() + PAUSE);
        }
    }

    /// A node is alive, and says whether it knows of the run.
    fn hear_state(&mut self, answer: &Answer) {
        let reply = &answer.reply;
        let Some(flight) = self.flights.get_mut(&reply.sender) else {
            return;
        };
        flight.is_there();
        let known = self.runs.get(&reply.sender).map(Uuid::to_string);
        let told = reply.data.get("run").and_then(Value::as_str);
        if told.is_some() && told == known.as_deref() {
            flight.strange = 0;
            return;
        }
        // An answer may be under way while this is said: once proves nothing, and often is no reason to ask often.
        flight.strange += 1;
        if flight.strange > 1 && flight.strange.is_power_of_two() {
            flight.again.get_or_insert_with(Instant::now);
        }
    }

    /// Gives up who was silent for too long, sets aside who blocks others, and asks those who were silent for long.
    fn look_after(&mut self) {
        let silence = self.mission.silence;
        let lost = |flight: &Flight| flight.heard.elapsed() >= silence;
        let flights = self.flights.iter();
        let given_up: Vec<(Identity, bool)> = flights
            .filter(|(_, flight)| lost(flight))
            .map(|(node, flight)| (node.clone(), flight.absent))
            .collect();
        let seconds = silence.as_secs_f64();
        for (node, absent) in given_up {
            let outcome = if absent {
                Outcome::unheard(NOT_CONNECTED, format!("not connected for {seconds:.0} s"))
            } else {
                Outcome::unheard(
                    NO_ANSWER,
                    format!("nothing was heard of it for {seconds:.0} s"),
                )
            };
            self.end(&node, outcome, None);
        }
        for (node, flight) in &self.flights {
            let silent = flight.absent || flight.heard.elapsed() >= silence / 2;
            let locked = flight.locked.is_some_and(|since| since.elapsed() >= LOCKED);
            self.schedule.set_aside(node, silent || locked);
        }
        if self.probed.elapsed() >= silence / 3 {
            self.probed = Instant::now();
            self.probe();
        }
    }

    fn probe(&self) {
        let quiet = |flight: &Flight| flight.heard.elapsed() >= self.mission.silence / 3;
        let flights = self.flights.iter();
        let nodes: BTreeSet<Identity> = flights
            .filter(|(_, flight)| quiet(flight) && !flight.absent)
            .map(|(node, _)| node.clone())
            .collect();
        if nodes.is_empty() {
            return;
        }
        // The names are well-formed; if they were not, nothing would have been asked.
        if let Ok(call) = Call::new(AGENT, "status", Aim::Nodes(nodes)) {
            let wait = self.mission.silence / 3;
            let events = self.client.call(Call { wait, ..call });
            listen(events, self.tell.clone());
        }
    }

    fn end(&mut self, node: &Identity, outcome: Outcome, answer: Option<Box<Answer>>) {
        if matches!(&self.asking, Some(Asking::Told(asking) | Asking::Sending(asking)) if asking == node)
        {
            self.asking = None;
        }
        self.flights.remove(node);
        let halted = self.schedule.ended(node, outcome.ok);
        let run = self.runs.get(node).copied().unwrap_or_default();
        self.ready.push_back(News::Ended {
            node: node.clone(),
            run,
            outcome,
            answer,
        });
        self.ready.extend(halted.map(News::Halted));
    }
}

impl Flight {
    fn new() -> Self {
        Self {
            asked: Instant::now(),
            heard: Instant::now(),
            absent: false,
            locked: None,
            again: None,
            strange: 0,
            calls: Vec::new(),
        }
    }

    fn is_there(&mut self) {
        self.heard = Instant::now();
        self.absent = false;
    }
}

/// Sends on what comes of a call about a run.
fn forward(mut events: Events, node: Identity, tell: mpsc::Sender<Heard>) -> Listener {
    let task = tokio::spawn(async move {
        while let Some(event) = events.next().await {
            if tell.send(Heard::Run(node.clone(), event)).await.is_err() {
                return;
            }
        }
    });
    Listener(task.abort_handle())
}

/// Sends on who answers a question for its state, and who is not there. It ends by itself.
fn listen(mut events: Events, tell: mpsc::Sender<Heard>) {
    tokio::spawn(async move {
        while let Some(event) = events.next().await {
            let heard = match event {
                Event::Reply(answer) => Heard::State(answer),
                Event::Absent(node) => Heard::Absent(node),
                _ => continue,
            };
            if tell.send(heard).await.is_err() {
                return;
            }
        }
    });
}
