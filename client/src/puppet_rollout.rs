//! Runs a Puppet rollout: handles Ctrl-C and reports progress. Shows nothing.

use std::time::{Duration, Instant};

use muster_calls::RolloutStopReason;
use muster_calls::runs::{PuppetRollout, PuppetRolloutEvent, PuppetRolloutSpec};
use muster_ddl::ActionSchema;

use crate::jobs::JobEnd;

use crate::fleet::FleetConnection;
use crate::interrupt::InterruptListener;
use crate::node_reply::NodeReply;
use crate::observer::{RequestEvent, RequestObserver};
use crate::puppet_runs::{EndedRun, PuppetRunsReport};
use crate::run_log::RunLogTracker;

/// How often delayed log lines are checked.
const HELD_LINE_CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// Executes the rollout, and adds the results to the runs. After the first Ctrl-C no further request is sent; nodes in flight are awaited. If the
/// sink is closed meanwhile, the results are incomplete.
pub async fn run_puppet_rollout(
    fleet: &FleetConnection,
    spec: PuppetRolloutSpec,
    action: &ActionSchema,
    runs: PuppetRunsReport,
    sink: &dyn RequestObserver,
) -> PuppetRunsReport {
    let started = Instant::now();
    let mut rollout = fleet.client.start_puppet_rollout(spec);
    let log = RunLogTracker::new(runs.limit);
    let mut progress = PuppetRolloutProgress { log, runs, sink, action, sent_count: 0 };
    let mut interrupt = InterruptListener::listen();
    let mut tick = tokio::time::interval(HELD_LINE_CHECK_INTERVAL);
    while !sink.is_closed() {
        tokio::select! {
            event = rollout.next() => match event {
                Some(event) => progress.handle_event(event, &rollout),
                None => break,
            },
            () = interrupt.wait_for_signal() => {
                rollout.stop(RolloutStopReason::Interrupted);
                progress.report_stop(RolloutStopReason::Interrupted, &rollout);
            }
            _ = tick.tick() => progress.log.release_due(count_unfinished(&rollout)),
        }
        for line in progress.log.take_lines() {
            sink.observe(RequestEvent::Run(&line));
        }
    }
    let halt = rollout.stop_reason();
    if !sink.is_closed() {
        sink.observe(RequestEvent::CallsEnded(JobEnd::of_rollout(halt)));
    }
    let mut runs = progress.runs;
    runs.not_asked.extend(rollout.unasked_nodes().cloned());
    PuppetRunsReport { halt, took: started.elapsed(), ..runs }
}

/// Number of runs that will still end: those in flight and those to be started.
fn count_unfinished(rollout: &PuppetRollout) -> usize {
    let left = match rollout.stop_reason() {
        None => rollout.unasked_nodes().count(),
        Some(_) => 0,
    };
    rollout.in_flight_count() + left
}

/// Progress so far.
struct PuppetRolloutProgress<'p> {
    runs: PuppetRunsReport,
    sink: &'p dyn RequestObserver,
    log: RunLogTracker,
    action: &'p ActionSchema,
    /// Number of sent requests.
    sent_count: usize,
}

impl PuppetRolloutProgress<'_> {
    fn handle_event(&mut self, event: PuppetRolloutEvent, rollout: &PuppetRollout) {
        match event {
            PuppetRolloutEvent::Requested(node) => {
                self.sent_count += 1;
                let number = self.sent_count;
                self.sink.observe(RequestEvent::RunRequested { number, node: &node });
            }
            PuppetRolloutEvent::Sent { request, .. } => {
                let request = request.to_string();
                self.sink.observe(RequestEvent::Sent(&request));
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
                    let reply = NodeReply::new(*answer, outcome.data.clone());
                    self.sink.observe(RequestEvent::Reply(&reply));
                } else if outcome.is_absent() {
                    self.sink.observe(RequestEvent::Absent(&node));
                }
                let ended = EndedRun { run, outcome, earlier: false };
                self.log.handle_end(&node, &ended, count_unfinished(rollout));
                self.runs.ended.insert(node, ended);
            }
            PuppetRolloutEvent::Rejected(reason) => {
                *self.runs.rejected.entry(reason).or_default() += 1;
            }
            PuppetRolloutEvent::Halted(halt) => self.report_stop(halt, rollout),
            PuppetRolloutEvent::Failed(error) => {
                self.sink.observe(RequestEvent::SendFailed(&error));
            }
        }
    }

    fn report_stop(&self, reason: RolloutStopReason, rollout: &PuppetRollout) {
        let in_flight = rollout.in_flight_count();
        self.sink.observe(RequestEvent::Stopped { reason, in_flight });
    }
}
