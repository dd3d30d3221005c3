//! Runs a Puppet rollout: writes its journal, handles Ctrl-C and reports progress. Renders nothing.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use muster_client::RolloutStopReason;
use muster_client::runs::{PuppetRollout, PuppetRolloutEvent, PuppetRolloutSpec, RunOutcome};
use muster_client::{ClientError, ReceivedReply};
use muster_ddl::ActionSchema;
use muster_wire::identity::Identity;
use uuid::Uuid;

use super::fleet::FleetConnection;
use super::interrupt::InterruptListener;
use super::recorder::JobRecorder;
use crate::error::Error;
use crate::report::NodeReply;
use crate::runs::run_log::{RunLogLine, RunLogTracker};
use crate::runs::{EndedRun, PuppetRunsReport};
use muster_jobs::JobEnd;

/// How often delayed log lines are checked.
const HELD_LINE_CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// A notice to show immediately.
#[derive(Debug, Clone, Copy)]
pub enum PuppetRolloutNotice<'a> {
    /// A log line; for the end of a run, with its complete result.
    Line(&'a RunLogLine, Option<&'a EndedRun>),
    /// The rollout stops; this many nodes are still in flight.
    Halted(RolloutStopReason, usize),
    /// Why a request could not be sent.
    Failed(&'a ClientError),
}

impl FleetConnection {
    /// Maximum time to wait for a reply, in addition to the action's own timeout.
    pub fn reply_grace_time(&self) -> Duration {
        self.listen
    }

    /// Executes the rollout, and adds the results to the runs. After the first Ctrl-C no further request is sent; nodes in flight are awaited.
    pub async fn run_puppet_rollout(
        &self,
        spec: PuppetRolloutSpec,
        action: &ActionSchema,
        (runs, recorder): (PuppetRunsReport, &mut JobRecorder<'_>),
        mut show: impl FnMut(PuppetRolloutNotice<'_>) -> Result<(), Error>,
    ) -> Result<PuppetRunsReport, Error> {
        let started = Instant::now();
        let mut rollout = self.client.start_puppet_rollout(spec);
        let mut progress = PuppetRolloutProgress {
            log: RunLogTracker::new(runs.limit),
            runs,
            recorder,
            action,
            sent_count: 0,
        };
        let mut interrupt = InterruptListener::listen();
        let mut tick = tokio::time::interval(HELD_LINE_CHECK_INTERVAL);
        loop {
            let notices = tokio::select! {
                event = rollout.next() => match event {
                    Some(event) => progress.handle_event(event, &rollout),
                    None => break,
                },
                () = interrupt.wait_for_signal() => {
                    rollout.stop(RolloutStopReason::Interrupted);
                    vec![QueuedRolloutNotice::Halted(RolloutStopReason::Interrupted, rollout.in_flight_count())]
                }
                _ = tick.tick() => queue_lines(progress.log.release_due(count_unfinished(&rollout))),
            };
            for notice in &notices {
                show(progress.build_notice(notice))?;
            }
        }
        let halt = rollout.stop_reason();
        progress.recorder.record_end(JobEnd::of_rollout(halt));
        let mut runs = progress.runs;
        runs.not_asked.extend(rollout.unasked_nodes().cloned());
        Ok(PuppetRunsReport { halt, took: started.elapsed(), ..runs })
    }
}

/// Number of runs that will still end: those in flight and those to be started.
fn count_unfinished(rollout: &PuppetRollout) -> usize {
    let left = match rollout.stop_reason() {
        None => rollout.unasked_nodes().count(),
        Some(_) => 0,
    };
    rollout.in_flight_count() + left
}

/// A queued notice.
enum QueuedRolloutNotice {
    Line(RunLogLine),
    Halted(RolloutStopReason, usize),
    Failed(ClientError),
}

fn queue_lines(lines: Vec<RunLogLine>) -> Vec<QueuedRolloutNotice> {
    lines.into_iter().map(QueuedRolloutNotice::Line).collect()
}

/// Progress so far, and the journal.
struct PuppetRolloutProgress<'c, 'p> {
    runs: PuppetRunsReport,
    recorder: &'c mut JobRecorder<'p>,
    log: RunLogTracker,
    action: &'c ActionSchema,
    /// Number of sent requests.
    sent_count: usize,
}

impl PuppetRolloutProgress<'_, '_> {
    /// Handles an event; returns the notices to show.
    fn handle_event(
        &mut self,
        event: PuppetRolloutEvent,
        rollout: &PuppetRollout,
    ) -> Vec<QueuedRolloutNotice> {
        match event {
            PuppetRolloutEvent::Requested(node) => {
                self.sent_count += 1;
                self.recorder.record_run(self.sent_count, node);
            }
            PuppetRolloutEvent::Sent { request, .. } => {
                let request = request.to_string();
                self.recorder.record_request(&request);
                self.runs.requests.push(request);
            }
            PuppetRolloutEvent::State { node, state } => {
                return queue_lines(self.log.handle_state(&node, state, count_unfinished(rollout)));
            }
            PuppetRolloutEvent::Ended { node, run, outcome, answer } => {
                return queue_lines(self.handle_run_end(
                    (node, run),
                    outcome,
                    answer,
                    count_unfinished(rollout),
                ));
            }
            PuppetRolloutEvent::Rejected(reason) => {
                *self.runs.rejected.entry(reason).or_default() += 1;
            }
            PuppetRolloutEvent::Halted(halt) => {
                return vec![QueuedRolloutNotice::Halted(halt, rollout.in_flight_count())];
            }
            PuppetRolloutEvent::Failed(error) => return vec![QueuedRolloutNotice::Failed(error)],
        }
        Vec::new()
    }

    fn handle_run_end(
        &mut self,
        (node, run): (Identity, Uuid),
        mut outcome: RunOutcome,
        answer: Option<Box<ReceivedReply>>,
        unfinished: usize,
    ) -> Vec<RunLogLine> {
        outcome.data = self.action.redact_output(&outcome.data);
        if let Some(answer) = answer {
            self.recorder.record_reply(&to_node_reply(*answer, &outcome));
        } else if outcome.is_absent() {
            self.recorder.record_not_connected(&BTreeSet::from([node.clone()]));
        }
        let lines = self.log.handle_end(&node, &outcome, unfinished);
        let ended = EndedRun { run, outcome, earlier: false };
        self.runs.ended.insert(node, ended);
        lines
    }

    /// Borrows the notice for the renderer.
    fn build_notice<'t>(&'t self, notice: &'t QueuedRolloutNotice) -> PuppetRolloutNotice<'t> {
        match notice {
            QueuedRolloutNotice::Line(line) => {
                let ended = match line {
                    RunLogLine::Ended(node, _) => self.runs.ended.get(node),
                    _ => None,
                };
                PuppetRolloutNotice::Line(line, ended)
            }
            QueuedRolloutNotice::Halted(halt, in_flight) => {
                PuppetRolloutNotice::Halted(*halt, *in_flight)
            }
            QueuedRolloutNotice::Failed(error) => PuppetRolloutNotice::Failed(error),
        }
    }
}

/// Converts the reply to the form that jobs store.
fn to_node_reply(answer: ReceivedReply, outcome: &RunOutcome) -> NodeReply {
    NodeReply {
        node: answer.reply.sender,
        status: answer.reply.statuscode,
        message: answer.reply.statusmsg,
        reason: answer.reply.reason,
        data: outcome.data.clone(),
        took: answer.reply.took,
        trace: None,
    }
}
