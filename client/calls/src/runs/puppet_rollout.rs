//! Executes a rollout of Puppet runs: sends requests, collects replies, and checks silent nodes.
//!
//! A running node sends progress or is polled: at every third of the maximum silence, silent nodes receive a `status` request of the agent. A node
//! that replies keeps its slot, however slow it is. A node that sends nothing for the whole time is given up, and the rollout continues. A request
//! whose reply may have been lost, because the node's daemon restarted or does not know the run, is repeated with the same run id.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use muster_base::{format_duration, unix_millis_now};
use muster_contract::puppet::{
    PuppetAgent, PuppetRunOnce, PuppetRunProgress, PuppetRunState, PuppetStatus,
};
use muster_ddl::{Action, AgentContract, EmptyInput};
use muster_filter::NodeFilter;
use muster_wire::identity::{Identity, NameError};
use muster_wire::status::ReplyReason;
use serde::Deserialize as _;
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio::time::{Instant, Interval, MissedTickBehavior};
use uuid::Uuid;

use super::in_flight_run::{InFlightRun, NodeUpdate, forward_events};
use super::outcome::{NO_ANSWER, NOT_CONNECTED, NOT_SENT, RunOutcome, UNFINISHED};
use crate::call::{CallTarget, RpcCall};
use crate::client::Client;
use crate::error::ClientError;
use crate::event::{CallEvent, ReceivedReply};
use crate::rollout::{RolloutLimits, RolloutSchedule, RolloutStopReason};

/// Interval between retries for an absent node.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Bounds of the interval of silence checks: no busy loop, and no late detection.
const SILENCE_CHECK_BOUNDS: (Duration, Duration) =
    (Duration::from_millis(20), Duration::from_secs(1));
/// Capacity of the event channel.
const UPDATE_CHANNEL_CAPACITY: usize = 1024;

/// Parameters of a rollout.
#[derive(Debug, Clone, PartialEq)]
pub struct PuppetRolloutSpec {
    /// The nodes in order, with the run id of each.
    pub runs: Vec<(Identity, Uuid)>,
    /// What each node must match when it gets the request.
    pub filter: NodeFilter,
    /// The inputs of `runonce`, without the run id.
    pub data: Map<String, Value>,
    /// Id of the rollout: nodes that wait for a permit start in the order of their run ids, which must be ascending. Without one, in order of arrival.
    pub rollout: Option<Uuid>,
    /// Concurrency limit and stop conditions.
    pub limits: RolloutLimits,
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
    Requested(Identity),
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
    Rejected(&'static str),
    /// No further node receives a request.
    Halted(RolloutStopReason),
    /// A request could not be sent.
    Failed(ClientError),
}

/// A rollout in progress. Dropping it ends it locally; nodes that received the request continue their runs.
#[derive(Debug)]
pub struct PuppetRollout {
    client: Client,
    spec: PuppetRolloutSpec,
    schedule: RolloutSchedule,
    runs: BTreeMap<Identity, Uuid>,
    in_flight: BTreeMap<Identity, InFlightRun>,
    /// The request that was announced but not sent, or sent but not confirmed.
    pending_request: Option<PendingRunRequest>,
    ready: VecDeque<PuppetRolloutEvent>,
    update_sender: mpsc::Sender<NodeUpdate>,
    update_receiver: mpsc::Receiver<NodeUpdate>,
    ticks: Interval,
    last_probe: Instant,
}

#[derive(Debug)]
struct PendingRunRequest {
    node: Identity,
    is_sent: bool,
}

impl Client {
    /// Creates a rollout. The first request is sent by [`PuppetRollout::next`]. Requires a tokio runtime.
    pub fn start_puppet_rollout(&self, spec: PuppetRolloutSpec) -> PuppetRollout {
        let (update_sender, update_receiver) = mpsc::channel(UPDATE_CHANNEL_CAPACITY);
        let order = spec.runs.iter().map(|(node, _)| node.clone()).collect();
        let interval = (spec.silence / 12).clamp(SILENCE_CHECK_BOUNDS.0, SILENCE_CHECK_BOUNDS.1);
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        PuppetRollout {
            client: self.clone(),
            schedule: RolloutSchedule::new(order, spec.limits),
            runs: spec.runs.iter().cloned().collect(),
            spec,
            in_flight: BTreeMap::new(),
            pending_request: None,
            ready: VecDeque::new(),
            update_sender,
            update_receiver,
            ticks,
            last_probe: Instant::now(),
        }
    }
}

impl PuppetRollout {
    /// Returns the next event; `None` when all requested runs have ended and no further one will start. Cancel-safe: no event is lost.
    pub async fn next(&mut self) -> Option<PuppetRolloutEvent> {
        loop {
            if let Some(announced) = self.pending_request.take_if(|request| !request.is_sent) {
                self.send_request(announced.node);
            }
            if let Some(event) = self.ready.pop_front().or_else(|| self.next_request()) {
                return Some(event);
            }
            if self.in_flight.is_empty() {
                return None;
            }
            tokio::select! {
                Some(update) = self.update_receiver.recv() => self.handle_update(update),
                _ = self.ticks.tick() => self.check_silent_nodes(),
            }
        }
    }

    /// Sends no further requests. Runs in progress continue and are awaited.
    pub fn stop(&mut self, reason: RolloutStopReason) {
        self.schedule.stop(reason);
    }

    /// Why no further requests are sent, if so.
    pub fn stop_reason(&self) -> Option<RolloutStopReason> {
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
        if self.pending_request.is_some() {
            return None;
        }
        let now = Instant::now();
        let is_due = |run: &InFlightRun| run.next_retry.is_some_and(|time| time <= now);
        let due_run = self.in_flight.iter_mut().find(|(_, run)| is_due(run));
        let node = if let Some((node, run)) = due_run {
            run.next_retry = None;
            node.clone()
        } else if self.must_wait_for_queue() {
            return None;
        } else {
            let node = self.schedule.next_node()?;
            self.in_flight.insert(node.clone(), InFlightRun::new());
            node
        };
        self.pending_request = Some(PendingRunRequest { node: node.clone(), is_sent: false });
        Some(PuppetRolloutEvent::Requested(node))
    }

    /// Whether the next request would overtake an earlier one: as many nodes as may run have requests, and one of them
    /// does not wait for its permit yet. The node of a later request would take its place.
    fn must_wait_for_queue(&self) -> bool {
        let limit = self.spec.limits.concurrency.unwrap_or(usize::MAX);
        self.in_flight.len() >= limit
            && self.in_flight.values().any(InFlightRun::is_expected_to_queue)
    }

    fn send_request(&mut self, node: Identity) {
        let call = self.build_call(&node);
        let Some(run) = self.in_flight.get_mut(&node) else {
            return;
        };
        match call {
            Ok(call) => {
                let sender = node.clone();
                let to_update = move |event| Some(NodeUpdate::Run(sender.clone(), event));
                let (events, updates) = (self.client.call(call), self.update_sender.clone());
                run.calls.spawn(forward_events(events, updates, to_update));
                self.pending_request = Some(PendingRunRequest { node, is_sent: true });
            }
            Err(error) => self.handle_send_failure(&node, error.into()),
        }
    }

    fn build_call(&self, node: &Identity) -> Result<RpcCall, NameError> {
        let mut data = self.spec.data.clone();
        if let Some(run) = self.runs.get(node) {
            data.insert("run".to_owned(), run.to_string().into());
        }
        if let Some(rollout) = self.spec.rollout {
            data.insert("rollout".to_owned(), rollout.to_string().into());
        }
        let target = CallTarget::Nodes([node.clone()].into());
        Ok(RpcCall {
            data,
            filter: self.spec.filter.clone(),
            stream: true,
            timeout: self.spec.timeout,
            wait: self.spec.wait,
            ttl: self.spec.ttl,
            ..RpcCall::new(PuppetAgent::NAME, PuppetRunOnce::NAME, target)?
        })
    }

    fn handle_update(&mut self, update: NodeUpdate) {
        match update {
            NodeUpdate::Run(node, event) => self.handle_run_event(&node, event),
            NodeUpdate::State(answer) => self.handle_state_reply(&answer),
            NodeUpdate::Absent(node) => self.handle_absence(&node),
        }
    }

    fn handle_run_event(&mut self, node: &Identity, event: CallEvent) {
        // Any event of the call means that the request was sent or has failed.
        self.pending_request.take_if(|request| request.is_sent && request.node == *node);
        let Some(run) = self.in_flight.get_mut(node) else {
            return;
        };
        match event {
            CallEvent::Published { request, .. } => {
                let node = node.clone();
                self.ready.push_back(PuppetRolloutEvent::Sent { node, request });
            }
            CallEvent::Progress(progress) => {
                run.mark_heard();
                self.schedule.set_aside(node, false);
                // Later versions may send other events.
                let states = progress.events.iter().map(PuppetRunProgress::deserialize);
                for PuppetRunProgress { state, .. } in states.flatten() {
                    run.has_queued |= state != PuppetRunState::WaitingLock;
                    run.lock_wait_started =
                        (state == PuppetRunState::WaitingLock).then(Instant::now);
                    self.ready.push_back(PuppetRolloutEvent::State { node: node.clone(), state });
                }
            }
            CallEvent::Reply(answer) => {
                let outcome = RunOutcome::from_reply(&answer.reply, unix_millis_now());
                // The daemon is running and busy, or the run continues and only the wait for it ended. A run outlives a daemon that was killed.
                let busy = matches!(
                    answer.reply.reason,
                    Some(ReplyReason::Busy { .. } | ReplyReason::Stopping | ReplyReason::Lost)
                );
                let continues = busy || outcome.class == UNFINISHED;
                if continues && run.requested_at.elapsed() < self.spec.wait {
                    run.mark_heard();
                    run.next_retry = Some(Instant::now() + RETRY_INTERVAL);
                } else {
                    self.finish_run(node, outcome, Some(answer));
                }
            }
            CallEvent::Absent(_) => self.handle_absence(node),
            CallEvent::Rejected(reason) => {
                self.ready.push_back(PuppetRolloutEvent::Rejected(reason));
            }
            // No message arrived in the whole time; the node may still be alive.
            CallEvent::Finished(stats) if !stats.missing.is_empty() && stats.absent.is_empty() => {
                let waited = format_duration(self.spec.wait);
                let message = format!("the run did not end within {waited}");
                self.finish_run(node, RunOutcome::without_reply(NO_ANSWER, message), None);
            }
            CallEvent::Finished(_) | CallEvent::Unexpected(_) => {}
            CallEvent::Failed(error) => self.handle_send_failure(node, error),
        }
    }

    /// The request cannot be sent, so later ones would fail as well.
    fn handle_send_failure(&mut self, node: &Identity, error: ClientError) {
        self.schedule.stop(RolloutStopReason::Broken);
        let outcome = RunOutcome::without_reply(NOT_SENT, error.to_string());
        self.finish_run(node, outcome, None);
        self.ready.push_back(PuppetRolloutEvent::Failed(error));
        self.ready.push_back(PuppetRolloutEvent::Halted(RolloutStopReason::Broken));
    }

    /// The node is absent. Its daemon may be restarting.
    fn handle_absence(&mut self, node: &Identity) {
        if let Some(run) = self.in_flight.get_mut(node) {
            run.absent = true;
            self.schedule.set_aside(node, true);
            run.next_retry.get_or_insert_with(|| Instant::now() + RETRY_INTERVAL);
        }
    }

    /// A node replied to a state poll, and reports whether the run is known.
    fn handle_state_reply(&mut self, answer: &ReceivedReply) {
        let reply = &answer.reply;
        let Some(run) = self.in_flight.get_mut(&reply.sender) else {
            return;
        };
        run.mark_heard();
        let run_id = self.runs.get(&reply.sender).map(Uuid::to_string);
        let status = answer.read_outputs::<PuppetStatus>().unwrap_or_default();
        if status.run.is_some() && status.run == run_id {
            run.unknown_replies = 0;
            return;
        }
        // The run's reply may be on its way at the same time: a single report proves nothing and does not justify a fast retry.
        run.unknown_replies += 1;
        if run.unknown_replies > 1 && run.unknown_replies.is_power_of_two() {
            run.next_retry.get_or_insert_with(Instant::now);
        }
    }

    /// Gives up nodes past the maximum silence, sets aside nodes that block others, and polls silent ones.
    fn check_silent_nodes(&mut self) {
        let silence = self.spec.silence;
        let lost = |(node, run): (&Identity, &InFlightRun)| {
            run.is_silent_for(silence).then(|| (node.clone(), run.absent))
        };
        for (node, absent) in self.in_flight.iter().filter_map(lost).collect::<Vec<_>>() {
            let (class, message) = if absent {
                (NOT_CONNECTED, "not connected")
            } else {
                (NO_ANSWER, "no message was received from it")
            };
            let message = format!("{message} for {}", format_duration(silence));
            self.finish_run(&node, RunOutcome::without_reply(class, message), None);
        }
        for (node, run) in &self.in_flight {
            self.schedule.set_aside(node, run.is_aside(silence));
        }
        if self.last_probe.elapsed() >= silence / 3 {
            self.last_probe = Instant::now();
            self.probe_silent_nodes();
        }
    }

    fn probe_silent_nodes(&self) {
        let wait = self.spec.silence / 3;
        let silent = |(node, run): (&Identity, &InFlightRun)| {
            (run.is_silent_for(wait) && !run.absent).then(|| node.clone())
        };
        let nodes: BTreeSet<Identity> = self.in_flight.iter().filter_map(silent).collect();
        if nodes.is_empty() {
            return;
        }
        // The names are valid; otherwise the first request would have failed.
        let target = CallTarget::Nodes(nodes);
        if let Ok(call) = RpcCall::of_action::<PuppetStatus>(&EmptyInput {}, target) {
            let events = self.client.call(RpcCall { wait, ..call });
            tokio::spawn(forward_events(events, self.update_sender.clone(), |event| match event {
                CallEvent::Reply(answer) => Some(NodeUpdate::State(answer)),
                CallEvent::Absent(node) => Some(NodeUpdate::Absent(node)),
                _ => None,
            }));
        }
    }

    fn finish_run(
        &mut self,
        node: &Identity,
        outcome: RunOutcome,
        answer: Option<Box<ReceivedReply>>,
    ) {
        self.pending_request.take_if(|request| request.node == *node);
        self.in_flight.remove(node);
        let halted = self.schedule.record_end(node, outcome.ok);
        let run = self.runs.get(node).copied().unwrap_or_default();
        let node = node.clone();
        self.ready.push_back(PuppetRolloutEvent::Ended { node, run, outcome, answer });
        self.ready.extend(halted.map(PuppetRolloutEvent::Halted));
    }
}
