//! That the measurements measure: everything in small.

use std::time::Duration;

use crate::fleet::Fleet;
use crate::floor::Floor;
use crate::measure::Contender;

/// Enough for several batches' worth of code paths, few enough for a debug build.
const NODES: usize = 50;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_floor_answers_in_full_with_and_without_signatures() {
    for shared in [None, Some(3)] {
        let mut floor = Floor::connect(NODES, shared).await;
        for contender in [Contender::Raw, Contender::RawSigned] {
            // It ends only when all have answered; unverifiable answers end it by panic.
            assert!(!floor.measure(contender).await.wall.is_zero());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_daemon_answers_and_is_believed_whoever_calls() {
    for shared in [None, Some(3)] {
        let mut fleet = Fleet::connect(NODES, shared).await;
        let ours = Contender::ALL.into_iter().filter(|one| !one.is_floor());
        for contender in ours {
            let took = fleet.measure(contender).await;
            assert!(!took.wall.is_zero() && took.cpu > Duration::ZERO);
        }
    }
}
