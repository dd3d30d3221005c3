//! Runs a Puppet rollout: writes its journal, handles Ctrl-C and reports progress. Shows nothing.

use std::time::{Duration, Instant};

use crate::jobs::JobEnd;
use muster_calls::runs::{PuppetRollout, PuppetRolloutEvent, PuppetRolloutSpec};
use muster_calls::{ClientError, RolloutStopReason};
use muster_ddl::ActionSchema;

use crate::fleet::FleetConnection;
use crate::interrupt::InterruptListener;
use crate::node_reply::NodeReply;
use crate::puppet_runs::{EndedRun, PuppetRunsReport};
use crate::recorder::JobRecorder;
use crate::run_log::{RunLogLine, RunLogTracker};

/// How often delayed log lines are checked.
const HELD_LINE_CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// A notice to show immediately.
#[derive(Debug)]
pub enum PuppetRolloutNotice {
    /// A log line.
    Line(RunLogLine),
    /// The rollout stops; this many nodes are still in flight.
    Halted(RolloutStopReason, usize),
    /// Why a request could not be sent.
    Failed(ClientError),
}

/// Executes the rollout, and adds the results to the runs. After the first Ctrl-C no further request is sent; nodes in flight are awaited.
pub async fn run_puppet_rollout<E>(
    fleet: &FleetConnection,
    spec: PuppetRolloutSpec,
    action: &ActionSchema,
    (runs, recorder): (PuppetRunsReport, &mut JobRecorder<'_>),
    mut show: impl FnMut(PuppetRolloutNotice) -> Result<(), E>,
) -> Result<PuppetRunsReport, E> {
    let started = Instant::now();
    let mut rollout = fleet.client.start_puppet_rollout(spec);
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
        let notice = tokio::select! {
            event = rollout.next() => match event {
                Some(event) => progress.handle_event(event, &rollout),
                None => break,
            },
            () = interrupt.wait_for_signal() => {
                rollout.stop(RolloutStopReason::Interrupted);
                let in_flight = rollout.in_flight_count();
                Some(PuppetRolloutNotice::Halted(RolloutStopReason::Interrupted, in_flight))
            }
            _ = tick.tick() => {
                progress.log.release_due(count_unfinished(&rollout));
                None
            }
        };
        let lines = progress.log.take_lines().into_iter().map(PuppetRolloutNotice::Line);
        notice.into_iter().chain(lines).try_for_each(&mut show)?;
    }
    let halt = rollout.stop_reason();
    progress.recorder.record_end(JobEnd::of_rollout(halt));
    let mut runs = progress.runs;
    runs.not_asked.extend(rollout.unasked_nodes().cloned());
    Ok(PuppetRunsReport { halt, took: started.elapsed(), ..runs })
}

/// Number of runs that will still end: those in flight and those to be started.
fn count_unfinished(rollout: &PuppetRollout) -> usize {
    let left = match rollout.stop_reason() {
        None => rollout.unasked_nodes().count(),
        Some(_) => 0,
    };
    rollout.in_flight_count() + left
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
    /// Handles an event; returns a notice to show before new log lines.
    fn handle_event(
        &mut self,
        event: PuppetRolloutEvent,
        rollout: &PuppetRollout,
    ) -> Option<PuppetRolloutNotice> {
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
                self.log.handle_state(&node, state, count_unfinished(rollout));
            }
            PuppetRolloutEvent::Ended { node, run, mut outcome, answer } => {
                outcome.data = self.action.redact_output(&outcome.data);
                if let Some(answer) = answer {
                    if answer.reply.cloned {
                        self.runs.cloned.insert(node.clone());
                    }
                    self.recorder.record_reply(&NodeReply::new(*answer, outcome.data.clone()));
                } else if outcome.is_absent() {
                    self.recorder.record_not_connected(&[node.clone()].into());
                }
                let ended = EndedRun { run, outcome, earlier: false };
                self.log.handle_end(&node, &ended, count_unfinished(rollout));
                self.runs.ended.insert(node, ended);
            }
            PuppetRolloutEvent::Rejected(reason) => {
                *self.runs.rejected.entry(reason).or_default() += 1;
            }
            PuppetRolloutEvent::Halted(halt) => {
                return Some(PuppetRolloutNotice::Halted(halt, rollout.in_flight_count()));
            }
            PuppetRolloutEvent::Failed(error) => return Some(PuppetRolloutNotice::Failed(error)),
        }
        None
    }
}
