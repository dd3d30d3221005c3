//! Tests the measurements with small fleets.

use std::time::Duration;

use crate::fleet::DaemonFleet;
use crate::floor::Floor;
use crate::measure::Contender;

/// Enough nodes to cover all code paths, and few enough for a debug build.
const NODES: usize = 50;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floor_replies_completely_with_and_without_signatures() {
    for shared in [None, Some(3)] {
        let mut floor = Floor::connect(NODES, shared).await;
        for contender in [Contender::Raw, Contender::RawSigned] {
            // The measurement ends only when all nodes have replied; an invalid signature panics.
            assert!(!floor.measure(contender).await.wall.is_zero());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_daemons_reply_with_valid_signatures_to_every_caller() {
    for shared in [None, Some(3)] {
        let mut fleet = DaemonFleet::connect(NODES, shared).await;
        let muster_contenders = Contender::ALL.into_iter().filter(|one| !one.is_floor());
        for contender in muster_contenders {
            let time = fleet.measure(contender).await;
            assert!(!time.wall.is_zero() && time.cpu > Duration::ZERO);
        }
    }
}
