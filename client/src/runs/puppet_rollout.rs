//! A rollout of runs, while it goes on: asks whoever may be asked, listens to all, and looks after those who fall silent.
//!
//! A node that is at work tells how far it is, or is asked for it: every third of the time that silence is borne, those who said
//! nothing are asked for the agent's `status`. Whoever answers that is alive, and keeps its place however slow it is. Where nothing
//! is heard for the whole time, the node is given up, and the others go on. A question whose answer may have been lost, because the
//! node's daemon was away for a moment or knows nothing of the run, is asked again with the same identity.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use muster_wire::identity::{Identity, NameError};
use muster_wire::status::ReplyReason;
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::{Instant, Interval, MissedTickBehavior};
use uuid::Uuid;

use super::outcome::{NO_ANSWER, NOT_CONNECTED, NOT_SENT, RunOutcome, UNFINISHED};
use super::schedule::{PuppetRolloutLimits, PuppetRolloutStopReason, RunSchedule};
use crate::call::{CallTarget, RpcCall};
use crate::client::Client;
use crate::client_inner::now;
use crate::error::ClientError;
use crate::event::{CallEvent, CallEventStream, ReceivedReply};

/// The agent that is asked.
const PUPPET_AGENT: &str = "puppet";
/// A node that is not there is asked again after this long.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// How often silence is looked at: neither in a busy loop nor late by much.
const SILENCE_CHECK_BOUNDS: (Duration, Duration) =
    (Duration::from_millis(20), Duration::from_secs(1));
/// Who waits this long for another run of its own node blocks nobody else any more.
const MAX_LOCK_WAIT: Duration = Duration::from_secs(2);
/// Events that wait to be taken in.
const UPDATE_CHANNEL_CAPACITY: usize = 1024;

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub struct PuppetRolloutSpec {
    /// The nodes in their order, and the identity of the run of each.
    pub runs: Vec<(Identity, Uuid)>,
    /// The inputs of `runonce`, but for the run's identity.
    pub data: Map<String, Value>,
    /// How many at a time, and when it ends early.
    pub shape: PuppetRolloutLimits,
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
pub enum PuppetRolloutEvent {
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
        outcome: RunOutcome,
        /// The answer, if there was one.
        answer: Option<Box<ReceivedReply>>,
    },
    /// An answer that is not believed, in a stable word.
    Disbelieved(&'static str),
    /// Nobody else is asked.
    Halted(PuppetRolloutStopReason),
    /// A question could not be sent.
    Failed(ClientError),
}

/// A rollout of runs. Dropping it ends it at the caller; nodes that were asked go on.
#[derive(Debug)]
pub struct PuppetRollout {
    client: Client,
    mission: PuppetRolloutSpec,
    schedule: RunSchedule,
    runs: BTreeMap<Identity, Uuid>,
    flights: BTreeMap<Identity, InFlightRun>,
    /// Told to be asked, and not sent yet; or sent, and not known to be out.
    asking: Option<PendingRunRequest>,
    ready: VecDeque<PuppetRolloutEvent>,
    tell: mpsc::Sender<NodeUpdate>,
    heard: mpsc::Receiver<NodeUpdate>,
    ticks: Interval,
    probed: Instant,
}

#[derive(Debug)]
enum PendingRunRequest {
    Told(Identity),
    Sending(Identity),
}

/// What came of a question to one node.
#[derive(Debug)]
enum NodeUpdate {
    /// Of the run.
    Run(Identity, CallEvent),
    /// Of its state.
    State(Box<ReceivedReply>),
    /// It is not connected, says the broker to whoever asks for its state.
    Absent(Identity),
}

/// A node that was asked and has not ended.
#[derive(Debug)]
struct InFlightRun {
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
    calls: Vec<CallAbortGuard>,
}

/// A call that ends with its owner.
#[derive(Debug)]
struct CallAbortGuard(AbortHandle);

impl Drop for CallAbortGuard {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Client {
    /// Begins a rollout. Nobody is asked before [`PuppetRollout::next`] is. Must be called within a tokio runtime.
    pub fn start_puppet_rollout(&self, mission: PuppetRolloutSpec) -> PuppetRollout {
        let (tell, heard) = mpsc::channel(UPDATE_CHANNEL_CAPACITY);
        let order = mission.runs.iter().map(|(node, _)| node.clone()).collect();
        let every = (mission.silence / 12).clamp(SILENCE_CHECK_BOUNDS.0, SILENCE_CHECK_BOUNDS.1);
        let mut ticks = tokio::time::interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        PuppetRollout {
            client: self.clone(),
            schedule: RunSchedule::new(order, mission.shape),
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

impl PuppetRollout {
    /// What happens next; `None` when everybody who was asked has ended and nobody else is. Nothing is lost when it is not awaited
    /// to its end.
    pub async fn next(&mut self) -> Option<PuppetRolloutEvent> {
        loop {
            if let Some(PendingRunRequest::Told(node)) = &self.asking {
                let node = node.clone();
                self.send_request(&node);
            }
            if let Some(news) = self.ready.pop_front() {
                return Some(news);
            }
            if let Some(news) = self.next_request() {
                return Some(news);
            }
            if self.flights.is_empty() {
                return None;
            }
            tokio::select! {
                Some(heard) = self.heard.recv() => self.handle_update(heard),
                _ = self.ticks.tick() => self.check_silent_nodes(),
            }
        }
    }

    /// Asks nobody else. Those who were asked go on, and are waited for.
    pub fn stop(&mut self, why: PuppetRolloutStopReason) {
        self.schedule.stop(why);
    }

    /// Why nobody else is asked, if so.
    pub fn stop_reason(&self) -> Option<PuppetRolloutStopReason> {
        self.schedule.stop_reason()
    }

    /// How many were asked and have not ended.
    pub fn in_flight_count(&self) -> usize {
        self.schedule.in_flight_count()
    }

    /// Those who were never asked, in their order.
    pub fn unasked_nodes(&self) -> impl Iterator<Item = &Identity> {
        self.schedule.unasked_nodes()
    }

    /// Whoever is to be asked next: again, or for the first time. One question goes out after the other.
    fn next_request(&mut self) -> Option<PuppetRolloutEvent> {
        if self.asking.is_some() {
            return None;
        }
        let now = Instant::now();
        let due = |flight: &InFlightRun| flight.again.is_some_and(|again| again <= now);
        let again = self.flights.iter_mut().find(|(_, flight)| due(flight));
        let node = if let Some((node, flight)) = again {
            flight.again = None;
            node.clone()
        } else {
            let node = self.schedule.next_node()?;
            self.flights.insert(node.clone(), InFlightRun::new());
            node
        };
        self.asking = Some(PendingRunRequest::Told(node.clone()));
        Some(PuppetRolloutEvent::Asked(node))
    }

    fn send_request(&mut self, node: &Identity) {
        self.asking = None;
        let call = self.build_call(node);
        let Some(flight) = self.flights.get_mut(node) else {
            return;
        };
        match call {
            Ok(call) => {
                let events = self.client.call(call);
                flight
                    .calls
                    .push(forward_run_events(events, node.clone(), self.tell.clone()));
                self.asking = Some(PendingRunRequest::Sending(node.clone()));
            }
            Err(error) => self.handle_send_failure(node, error.into()),
        }
    }

    fn build_call(&self, node: &Identity) -> Result<RpcCall, NameError> {
        let mut data = self.mission.data.clone();
        if let Some(run) = self.runs.get(node) {
            data.insert("run".to_owned(), run.to_string().into());
        }
        let aim = CallTarget::Nodes([node.clone()].into());
        Ok(RpcCall {
            data,
            stream: true,
            timeout: self.mission.timeout,
            wait: self.mission.wait,
            ttl: self.mission.ttl,
            ..RpcCall::new(PUPPET_AGENT, "runonce", aim)?
        })
    }

    fn handle_update(&mut self, heard: NodeUpdate) {
        match heard {
            NodeUpdate::Run(node, event) => self.handle_run_event(&node, event),
            NodeUpdate::State(answer) => self.handle_state_reply(&answer),
            NodeUpdate::Absent(node) => self.handle_absence(&node),
        }
    }

    fn handle_run_event(&mut self, node: &Identity, event: CallEvent) {
        if matches!(&self.asking, Some(PendingRunRequest::Sending(sending)) if sending == node) {
            // Whatever is heard of the call, it is out or over.
            self.asking = None;
        }
        let Some(flight) = self.flights.get_mut(node) else {
            return;
        };
        match event {
            CallEvent::Published { request, .. } => {
                let node = node.clone();
                self.ready
                    .push_back(PuppetRolloutEvent::Sent { node, request });
            }
            CallEvent::Progress(tale) => {
                flight.mark_heard();
                let states = tale.events.iter();
                let states = states.filter_map(|event| event.get("state")?.as_str());
                for state in states.clone() {
                    flight.locked = (state == "waiting_lock").then(Instant::now);
                }
                self.schedule.set_aside(node, false);
                self.ready
                    .extend(states.map(|state| PuppetRolloutEvent::State {
                        node: node.clone(),
                        state: state.to_owned(),
                    }));
            }
            CallEvent::Reply(answer) => {
                let outcome = RunOutcome::from_reply(&answer.reply, now());
                // The daemon is there, and will have time for it; or the run goes on, and only waiting for it ended.
                let busy = matches!(
                    answer.reply.reason,
                    Some(ReplyReason::Busy { .. } | ReplyReason::Stopping)
                );
                let goes_on = busy || outcome.class == UNFINISHED;
                if goes_on && flight.asked.elapsed() < self.mission.wait {
                    flight.mark_heard();
                    flight.again = Some(Instant::now() + RETRY_INTERVAL);
                } else {
                    self.finish_run(node, outcome, Some(answer));
                }
            }
            CallEvent::Absent(_) => self.handle_absence(node),
            CallEvent::Disbelieved(word) => {
                self.ready.push_back(PuppetRolloutEvent::Disbelieved(word));
            }
            // Nothing came in all that time; the node may be alive all the same.
            CallEvent::Finished(stats) if !stats.missing.is_empty() && stats.absent.is_empty() => {
                let waited = self.mission.wait.as_secs();
                let why = format!("its run did not end within {waited} s");
                self.finish_run(node, RunOutcome::without_reply(NO_ANSWER, why), None);
            }
            CallEvent::Finished(_) | CallEvent::Unexpected(_) => {}
            CallEvent::Failed(error) => self.handle_send_failure(node, error),
        }
    }

    /// The question cannot be sent, and others could not be either.
    fn handle_send_failure(&mut self, node: &Identity, error: ClientError) {
        self.schedule.stop(PuppetRolloutStopReason::Broken);
        let outcome = RunOutcome::without_reply(NOT_SENT, error.to_string());
        self.finish_run(node, outcome, None);
        self.ready.push_back(PuppetRolloutEvent::Failed(error));
        self.ready
            .push_back(PuppetRolloutEvent::Halted(PuppetRolloutStopReason::Broken));
    }

    /// The node is not there now. Its daemon may be starting anew.
    fn handle_absence(&mut self, node: &Identity) {
        if let Some(flight) = self.flights.get_mut(node) {
            flight.absent = true;
            self.schedule.set_aside(node, true);
            flight
                .again
                .get_or_insert_with(|| Instant::now() + RETRY_INTERVAL);
        }
    }

    /// A node is alive, and says whether it knows of the run.
    fn handle_state_reply(&mut self, answer: &ReceivedReply) {
        let reply = &answer.reply;
        let Some(flight) = self.flights.get_mut(&reply.sender) else {
            return;
        };
        flight.mark_heard();
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
    fn check_silent_nodes(&mut self) {
        let silence = self.mission.silence;
        let lost = |flight: &InFlightRun| flight.heard.elapsed() >= silence;
        let flights = self.flights.iter();
        let given_up: Vec<(Identity, bool)> = flights
            .filter(|(_, flight)| lost(flight))
            .map(|(node, flight)| (node.clone(), flight.absent))
            .collect();
        let seconds = silence.as_secs_f64();
        for (node, absent) in given_up {
            let outcome = if absent {
                RunOutcome::without_reply(
                    NOT_CONNECTED,
                    format!("not connected for {seconds:.0} s"),
                )
            } else {
                RunOutcome::without_reply(
                    NO_ANSWER,
                    format!("nothing was heard of it for {seconds:.0} s"),
                )
            };
            self.finish_run(&node, outcome, None);
        }
        for (node, flight) in &self.flights {
            let silent = flight.absent || flight.heard.elapsed() >= silence / 2;
            let locked = flight
                .locked
                .is_some_and(|since| since.elapsed() >= MAX_LOCK_WAIT);
            self.schedule.set_aside(node, silent || locked);
        }
        if self.probed.elapsed() >= silence / 3 {
            self.probed = Instant::now();
            self.probe_silent_nodes();
        }
    }

    fn probe_silent_nodes(&self) {
        let quiet = |flight: &InFlightRun| flight.heard.elapsed() >= self.mission.silence / 3;
        let flights = self.flights.iter();
        let nodes: BTreeSet<Identity> = flights
            .filter(|(_, flight)| quiet(flight) && !flight.absent)
            .map(|(node, _)| node.clone())
            .collect();
        if nodes.is_empty() {
            return;
        }
        // The names are well-formed; if they were not, nothing would have been asked.
        if let Ok(call) = RpcCall::new(PUPPET_AGENT, "status", CallTarget::Nodes(nodes)) {
            let wait = self.mission.silence / 3;
            let events = self.client.call(RpcCall { wait, ..call });
            forward_state_replies(events, self.tell.clone());
        }
    }

    fn finish_run(
        &mut self,
        node: &Identity,
        outcome: RunOutcome,
        answer: Option<Box<ReceivedReply>>,
    ) {
        if matches!(&self.asking, Some(PendingRunRequest::Told(asking) | PendingRunRequest::Sending(asking)) if asking == node)
        {
            self.asking = None;
        }
        self.flights.remove(node);
        let halted = self.schedule.record_end(node, outcome.ok);
        let run = self.runs.get(node).copied().unwrap_or_default();
        self.ready.push_back(PuppetRolloutEvent::Ended {
            node: node.clone(),
            run,
            outcome,
            answer,
        });
        self.ready.extend(halted.map(PuppetRolloutEvent::Halted));
    }
}

impl InFlightRun {
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

    fn mark_heard(&mut self) {
        self.heard = Instant::now();
        self.absent = false;
    }
}

/// Sends on what comes of a call about a run.
fn forward_run_events(
    mut events: CallEventStream,
    node: Identity,
    tell: mpsc::Sender<NodeUpdate>,
) -> CallAbortGuard {
    let task = tokio::spawn(async move {
        while let Some(event) = events.next().await {
            if tell
                .send(NodeUpdate::Run(node.clone(), event))
                .await
                .is_err()
            {
                return;
            }
        }
    });
    CallAbortGuard(task.abort_handle())
}

/// Sends on who answers a question for its state, and who is not there. It ends by itself.
fn forward_state_replies(mut events: CallEventStream, tell: mpsc::Sender<NodeUpdate>) {
    tokio::spawn(async move {
        while let Some(event) = events.next().await {
            let heard = match event {
                CallEvent::Reply(answer) => NodeUpdate::State(answer),
                CallEvent::Absent(node) => NodeUpdate::Absent(node),
                _ => continue,
            };
            if tell.send(heard).await.is_err() {
                return;
            }
        }
    });
}
