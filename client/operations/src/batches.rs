//! Runs an operation batch by batch, and keeps the result of each node.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use muster_calls::{ClientError, RolloutStopReason};
use muster_client::{BatchPace, BatchProgress, RequestObserver, RequestOutcome, run_batches};
use muster_wire::identity::Identity;

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
pub(crate) async fn collect_results<R: NodeResult>(
    nodes: BTreeSet<Identity>,
    pace: BatchPace,
    observer: &dyn RequestObserver,
    mut operation: impl AsyncFnMut(
        BTreeSet<Identity>,
        &mut BTreeMap<Identity, R>,
    ) -> Result<(), ClientError>,
) -> Result<NodeResults<R>, ClientError> {
    let start = Instant::now();
    let mut results = BTreeMap::new();
    let stop = run_batches(&nodes, pace, observer, async |batch| {
        let sent = operation(batch, &mut results).await;
        let failed = results.values().filter(|result| !result.is_ok()).count();
        (sent, BatchProgress { failed, results: results.len() })
    });
    let stop = stop.await?;
    Ok(NodeResults::complete(results, nodes, stop, start))
}
