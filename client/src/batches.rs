//! Runs an operation batch by batch: stops after too many failures, at an interrupt, or when a batch cannot be sent.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_calls::{ClientError, RolloutLimits, RolloutSchedule, RolloutStopReason};
use muster_wire::identity::Identity;

use crate::interrupt::InterruptListener;
use crate::jobs::JobEnd;
use crate::observer::{RequestEvent, RequestObserver};

/// Batches and stop conditions.
#[derive(Debug, Clone, Copy)]
pub struct BatchPace {
    /// Sizes of batches, and how many failures end the operation.
    pub limits: RolloutLimits,
    /// Pause between batches.
    pub pause: Duration,
}

/// What is known after a batch, of all batches so far.
#[derive(Debug, Clone, Copy)]
pub struct BatchProgress {
    /// Number of nodes that failed or did not reply.
    pub failed: usize,
    /// Number of nodes with a result. Without any, a batch that cannot be sent is an error.
    pub results: usize,
}

/// Runs the operation on each batch, and returns why it ended early. An interrupt drops the operation, and a closed sink ends it without an event.
pub async fn run_batches(
    nodes: &BTreeSet<Identity>,
    BatchPace { limits, pause }: BatchPace,
    observer: &dyn RequestObserver,
    mut operation: impl AsyncFnMut(BTreeSet<Identity>) -> (Result<(), ClientError>, BatchProgress),
) -> Result<Option<RolloutStopReason>, ClientError> {
    let count = limits.batches(nodes.iter().cloned()).len();
    let is_rollout = limits.canary > 0 || limits.batch.is_some();
    let mut schedule = RolloutSchedule::new(nodes.iter().cloned().collect(), limits);
    let mut interrupt = InterruptListener::listen();
    let mut number = 0;
    while let Some(batch) = schedule.next_batch() {
        number += 1;
        observer.observe(RequestEvent::BatchStarted { number, count, nodes: &batch, is_rollout });
        if observer.is_closed() {
            return Ok(None);
        }
        let ended = tokio::select! {
            ended = operation(batch) => Some(ended),
            () = interrupt.wait_for_signal() => None,
        };
        if observer.is_closed() {
            return Ok(None);
        }
        observer.observe(RequestEvent::BatchEnded);
        let Some((sent, progress)) = ended else {
            schedule.stop(RolloutStopReason::Interrupted);
            break;
        };
        match sent {
            Ok(()) => {}
            Err(error) if progress.results == 0 => {
                observer.observe(RequestEvent::CallsEnded(JobEnd::Broken));
                return Err(error);
            }
            Err(error) => {
                observer.observe(RequestEvent::SendFailed(&error));
                schedule.stop(RolloutStopReason::Broken);
                break;
            }
        }
        if number == count || schedule.record_batch_end(progress.failed).is_some() {
            break;
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = interrupt.wait_for_signal() => {
                schedule.stop(RolloutStopReason::Interrupted);
                break;
            }
        }
    }
    let stop = schedule.stop_reason();
    observer.observe(RequestEvent::CallsEnded(JobEnd::of_rollout(stop)));
    if let Some(reason) = stop {
        observer.observe(RequestEvent::Stopped { reason, in_flight: 0 });
    }
    Ok(stop)
}
