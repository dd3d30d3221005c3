//! Runs an operation batch by batch: stops after too many failures, at an interrupt, or when a batch cannot be sent.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_calls::{ClientError, RolloutLimits, RolloutSchedule, RolloutStopReason};
use muster_wire::identity::Identity;

use crate::interrupt::InterruptListener;
use crate::observer::{RequestEvent, RequestObserver};
use crate::rollout::wait_for_next_batch;

/// Batches and stop conditions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchPace {
    pub(crate) limits: RolloutLimits,
    /// Pause between batches.
    pub(crate) pause: Duration,
}

/// What is known after a batch, of all batches so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchProgress {
    /// Number of nodes that failed or did not reply.
    pub(crate) failed: usize,
    /// Number of nodes with a result.
    pub(crate) results: usize,
}

/// Runs the operation on each batch, and returns why it ended early. A batch that cannot be sent is an error only if no node has a result yet.
pub(crate) async fn run_batches(
    nodes: &BTreeSet<Identity>,
    BatchPace { limits, pause }: BatchPace,
    observer: &dyn RequestObserver,
    mut operation: impl AsyncFnMut(BTreeSet<Identity>) -> (Result<(), ClientError>, BatchProgress),
) -> Result<Option<RolloutStopReason>, ClientError> {
    let count = limits.batches(nodes.iter().cloned()).len();
    let mut schedule = RolloutSchedule::new(nodes.iter().cloned().collect(), limits);
    let mut interrupt = InterruptListener::listen();
    let mut number = 0;
    while let Some(batch) = schedule.next_batch() {
        number += 1;
        observer.observe(RequestEvent::BatchStarted { number, count, nodes: batch.len() });
        let (ended, progress) = tokio::select! {
            ended = operation(batch) => ended,
            () = interrupt.wait_for_signal() => {
                schedule.stop(RolloutStopReason::Interrupted);
                break;
            }
        };
        match ended {
            Ok(()) => {}
            Err(error) if progress.results == 0 => return Err(error),
            Err(error) => {
                observer.observe(RequestEvent::BatchFailed(&error));
                schedule.stop(RolloutStopReason::Broken);
                break;
            }
        }
        let wait =
            wait_for_next_batch(&mut schedule, (progress.failed, pause), &mut interrupt, observer);
        if number == count || !wait.await {
            break;
        }
    }
    observer.observe(RequestEvent::CallsEnded);
    Ok(schedule.stop_reason())
}
