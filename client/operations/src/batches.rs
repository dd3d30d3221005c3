//! Runs an operation batch by batch: stops after too many failures, at an interrupt, or when a batch cannot be sent. Keeps the result of each node.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use muster_calls::{ClientError, RolloutLimits, RolloutSchedule, RolloutStopReason};
use muster_client::{
    InterruptListener, RequestEvent, RequestObserver, RequestOutcome, wait_for_next_batch,
};
use muster_wire::identity::Identity;

/// Batches and stop conditions.
#[derive(Debug, Clone, Copy)]
pub struct BatchPace {
    /// Sizes of batches, and how many failures end the operation.
    pub limits: RolloutLimits,
    /// Pause between batches.
    pub pause: Duration,
}

/// The result of an operation on one node.
pub trait NodeResult {
    /// The result of a node that was not reached, or not to the end, because the command ended early.
    fn not_completed() -> Self;

    /// Whether the operation succeeded.
    fn is_ok(&self) -> bool;

    /// Whether the node did not reply.
    fn is_silent(&self) -> bool;
}

/// The results of all nodes.
#[derive(Debug, Clone)]
pub struct NodeResults<R> {
    /// By node.
    pub nodes: BTreeMap<Identity, R>,
    /// Why the command ended early, if it did.
    pub stop: Option<RolloutStopReason>,
    /// How long it took.
    pub took: Duration,
}

impl<R: NodeResult> NodeResults<R> {
    /// These results, and those of the other nodes, which have none. `start` is when the operation began.
    pub(crate) fn complete(
        mut nodes: BTreeMap<Identity, R>,
        all: BTreeSet<Identity>,
        stop: Option<RolloutStopReason>,
        start: Instant,
    ) -> Self {
        for node in all {
            nodes.entry(node).or_insert_with(R::not_completed);
        }
        Self { nodes, stop, took: start.elapsed() }
    }

    /// How the command ended, as for requests.
    pub fn outcome(&self) -> RequestOutcome {
        let count = |is_counted: fn(&R) -> bool| {
            self.nodes.values().filter(|result| is_counted(result)).count()
        };
        RequestOutcome::of_nodes(self.nodes.len(), count(R::is_ok), count(R::is_silent))
    }
}

/// Runs the operation on each batch, which adds the results of its nodes. A batch that cannot be sent is an error only if no node has a result yet.
pub(crate) async fn run_batches<R: NodeResult>(
    nodes: BTreeSet<Identity>,
    BatchPace { limits, pause }: BatchPace,
    observer: &dyn RequestObserver,
    mut operation: impl AsyncFnMut(
        BTreeSet<Identity>,
        &mut BTreeMap<Identity, R>,
    ) -> Result<(), ClientError>,
) -> Result<NodeResults<R>, ClientError> {
    let start = Instant::now();
    let mut results = BTreeMap::new();
    let count = limits.batches(nodes.iter().cloned()).len();
    let mut schedule = RolloutSchedule::new(nodes.iter().cloned().collect(), limits);
    let mut interrupt = InterruptListener::listen();
    let mut number = 0;
    while let Some(batch) = schedule.next_batch() {
        number += 1;
        observer.observe(RequestEvent::BatchStarted { number, count, nodes: batch.len() });
        let ended = tokio::select! {
            ended = operation(batch, &mut results) => ended,
            () = interrupt.wait_for_signal() => {
                schedule.stop(RolloutStopReason::Interrupted);
                break;
            }
        };
        match ended {
            Ok(()) => {}
            Err(error) if results.is_empty() => return Err(error),
            Err(error) => {
                observer.observe(RequestEvent::BatchFailed(&error));
                schedule.stop(RolloutStopReason::Broken);
                break;
            }
        }
        let failed = results.values().filter(|result| !result.is_ok()).count();
        let wait = wait_for_next_batch(&mut schedule, (failed, pause), &mut interrupt, observer);
        if number == count || !wait.await {
            break;
        }
    }
    observer.observe(RequestEvent::CallsEnded);
    Ok(NodeResults::complete(results, nodes, schedule.stop_reason(), start))
}
