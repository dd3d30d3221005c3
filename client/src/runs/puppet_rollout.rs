//! Executes a rollout of Puppet runs: sends requests, collects replies, and checks silent nodes.
//!
//! A running node sends progress or is polled: at every third of the maximum silence, silent nodes receive a `status` request of the agent. A node
//! that replies keeps its slot, however slow it is. A node that sends nothing for the whole time is given up, and the rollout continues. A request
//! whose reply may have been lost, because the node's daemon restarted or does not know the run, is repeated with the same run id.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use muster_bus::unix_millis_now;
use muster_contract::puppet::{PuppetRunProgress, PuppetRunState, PuppetStatusOutput};
use muster_contract::read_values;
use muster_wire::identity::{Identity, NameError};
use muster_wire::status::ReplyReason;
use serde::Deserialize as _;
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::{Instant, Interval, MissedTickBehavior};
use uuid::Uuid;

use super::outcome::{NO_ANSWER, NOT_CONNECTED, NOT_SENT, RunOutcome, UNFINISHED};
use super::schedule::{PuppetRolloutLimits, PuppetRolloutStopReason, RunSchedule};
use crate::call::{CallTarget, RpcCall};
use crate::client::Client;

use crate::error::ClientError;
use crate::event::{CallEvent, CallEventStream, ReceivedReply};

/// The agent that receives the requests.
const PUPPET_AGENT: &str = "puppet";
/// Interval between retries for an absent node.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Bounds of the interval of silence checks: no busy loop, and no late detection.
const SILENCE_CHECK_BOUNDS: (Duration, Duration) =
    (Duration::from_millis(20), Duration::from_secs(1));
/// A node that waits this long for another run of its own no longer counts against the limit.
const MAX_LOCK_WAIT: Duration = Duration::from_secs(2);
/// Capacity of the event channel.
const UPDATE_CHANNEL_CAPACITY: usize = 1024;

/// Parameters of a rollout.
#[derive(Debug, Clone, PartialEq)]
pub struct PuppetRolloutSpec {
    /// The nodes in order, with the run id of each.
    pub runs: Vec<(Identity, Uuid)>,
    /// The inputs of `runonce`, without the run id.
    pub data: Map<String, Value>,
    /// Concurrency limit and stop conditions.
    pub shape: PuppetRolloutLimits,
    /// Maximum silence of a node before it is given up.
    pub silence: Duration,
    /// Time limit of one node's run, including its waits; the DDL's timeout when absent.
    pub timeout: Option<Duration>,
    /// Maximum wait for a reply; should exceed `timeout`.
    pub wait: Duration,
    /// Maximum time until a node starts to wait for its permit.
    pub ttl: Duration,
}

/// An event of a rollout.
#[derive(Debug)]
pub enum PuppetRolloutEvent {
    /// The request to this node is sent by the next call of `next`. Before that, the caller can write its journal.
    Asked(Identity),
    /// The request was sent.
    Sent {
        /// The node.
        node: Identity,
        /// The request's id.
        request: Uuid,
    },
    /// The node reports the stage of its run.
    State {
        /// The node.
        node: Identity,
        /// The stage.
        state: PuppetRunState,
    },
    /// A node's run has ended, or the node is given up.
    Ended {
        /// The node.
        node: Identity,
        /// The run id.
        run: Uuid,
        /// The outcome.
        outcome: RunOutcome,
        /// The reply, if there was one.
        answer: Option<Box<ReceivedReply>>,
    },
    /// A reply that failed verification, with a stable reason code.
    Disbelieved(&'static str),
    /// No further node receives a request.
    Halted(PuppetRolloutStopReason),
    /// A request could not be sent.
    Failed(ClientError),
}

/// A rollout in progress. Dropping it ends it locally; nodes that received the request continue their runs.
#[derive(Debug)]
pub struct PuppetRollout {
    client: Client,
    mission: PuppetRolloutSpec,
    schedule: RunSchedule,
    runs: BTreeMap<Identity, Uuid>,
    flights: BTreeMap<Identity, InFlightRun>,
    /// The request that was announced but not sent, or sent but not confirmed.
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

/// A message about one node, from its call or a state poll.
#[derive(Debug)]
enum NodeUpdate {
    /// From the call of the run.
    Run(Identity, CallEvent),
    /// From a state poll.
    State(Box<ReceivedReply>),
    /// The broker reports no subscriber for the state poll.
    Absent(Identity),
}

/// A node with a request and no outcome so far.
#[derive(Debug)]
struct InFlightRun {
    /// Time of the first request.
    asked: Instant,
    /// Time of the last message of the node.
    heard: Instant,
    /// The broker reports no subscriber.
    absent: bool,
    /// Since when it waits for another run of its own.
    locked: Option<Instant>,
    /// Time of the next retry.
    again: Option<Instant>,
    /// Number of consecutive replies in which the run was unknown.
    strange: u32,
    calls: Vec<CallAbortGuard>,
}

/// Aborts a call's task when dropped.
#[derive(Debug)]
struct CallAbortGuard(AbortHandle);

impl Drop for CallAbortGuard {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Client {
    /// Creates a rollout. The first request is sent by [`PuppetRollout::next`]. Requires a tokio runtime.
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
    /// Returns the next event; `None` when all requested runs have ended and no further one will start. Cancel-safe: no event is lost.
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

    /// Sends no further requests. Runs in progress continue and are awaited.
    pub fn stop(&mut self, why: PuppetRolloutStopReason) {
        self.schedule.stop(why);
    }

    /// Why no further requests are sent, if so.
    pub fn stop_reason(&self) -> Option<PuppetRolloutStopReason> {
        self.schedule.stop_reason()
    }

    /// Number of nodes with a request and no outcome so far.
    pub fn in_flight_count(&self) -> usize {
        self.schedule.in_flight_count()
    }

    /// Nodes that received no request, in order.
    pub fn unasked_nodes(&self) -> impl Iterator<Item = &Identity> {
        self.schedule.unasked_nodes()
    }

    /// Announces the next request: a due retry or a new node. Requests are sent one at a time.
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
            // Any event of the call means that the request was sent or has failed.
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
                let states = states.filter_map(|event| PuppetRunProgress::deserialize(event).ok());
                let states: Vec<PuppetRunState> = states.map(|progress| progress.state).collect();
                for state in &states {
                    flight.locked = (*state == PuppetRunState::WaitingLock).then(Instant::now);
                }
                self.schedule.set_aside(node, false);
                self.ready
                    .extend(states.into_iter().map(|state| PuppetRolloutEvent::State {
                        node: node.clone(),
                        state,
                    }));
            }
            CallEvent::Reply(answer) => {
                let outcome = RunOutcome::from_reply(&answer.reply, unix_millis_now());
                // The daemon is running and busy, or the run continues and only the wait for it ended.
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
            // No message arrived in the whole time; the node may still be alive.
            CallEvent::Finished(stats) if !stats.missing.is_empty() && stats.absent.is_empty() => {
                let waited = self.mission.wait.as_secs();
                let why = format!("the run did not end within {waited} s");
                self.finish_run(node, RunOutcome::without_reply(NO_ANSWER, why), None);
            }
            CallEvent::Finished(_) | CallEvent::Unexpected(_) => {}
            CallEvent::Failed(error) => self.handle_send_failure(node, error),
        }
    }

    /// The request cannot be sent, so later ones would fail as well.
    fn handle_send_failure(&mut self, node: &Identity, error: ClientError) {
        self.schedule.stop(PuppetRolloutStopReason::Broken);
        let outcome = RunOutcome::without_reply(NOT_SENT, error.to_string());
        self.finish_run(node, outcome, None);
        self.ready.push_back(PuppetRolloutEvent::Failed(error));
        self.ready
            .push_back(PuppetRolloutEvent::Halted(PuppetRolloutStopReason::Broken));
    }

    /// The node is absent. Its daemon may be restarting.
    fn handle_absence(&mut self, node: &Identity) {
        if let Some(flight) = self.flights.get_mut(node) {
            flight.absent = true;
            self.schedule.set_aside(node, true);
            flight
                .again
                .get_or_insert_with(|| Instant::now() + RETRY_INTERVAL);
        }
    }

    /// A node replied to a state poll, and reports whether the run is known.
    fn handle_state_reply(&mut self, answer: &ReceivedReply) {
        let reply = &answer.reply;
        let Some(flight) = self.flights.get_mut(&reply.sender) else {
            return;
        };
        flight.mark_heard();
        let known = self.runs.get(&reply.sender).map(Uuid::to_string);
        let status: PuppetStatusOutput = read_values(&reply.data).unwrap_or_default();
        if status.run.is_some() && status.run == known {
            flight.strange = 0;
            return;
        }
        // The run's reply may be on its way at the same time: a single report proves nothing and does not justify a fast retry.
        flight.strange += 1;
        if flight.strange > 1 && flight.strange.is_power_of_two() {
            flight.again.get_or_insert_with(Instant::now);
        }
    }

    /// Gives up nodes past the maximum silence, sets aside nodes that block others, and polls silent ones.
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
                    format!("no message was received from it for {seconds:.0} s"),
                )
            };
            self.finish_run(&node, outcome, None);
        }
        for (node, flight) in &self.flights {
            // A node that is silent for half the maximum no longer blocks others; its outcome is still awaited.
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
        // The names are valid; otherwise the first request would have failed.
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

/// Forwards the events of a run's call.
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

/// Forwards the replies of a state poll, and absent nodes. Ends with its call.
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
