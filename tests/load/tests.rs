//! That the measurements measure: everything in small.

use crate::fleet::Fleet;
use crate::floor::Floor;
use crate::measure::{Contender, Side, median, rows};

/// Enough for several batches' worth of code paths, few enough for a debug build.
const NODES: usize = 50;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_floor_answers_in_full_with_and_without_signatures() {
    let mut floor = Floor::connect(NODES).await;
    for contender in [Contender::Raw, Contender::RawSigned] {
        // It ends only when all have answered; unverifiable answers end it by panic.
        assert!(!floor.measure(contender).await.is_zero());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_daemon_answers_and_is_believed_whoever_calls() {
    let fleet = Fleet::connect(NODES).await;
    let ours = Contender::ALL
        .into_iter()
        .filter(|one| one.side() == Side::Muster);
    for contender in ours {
        assert!(!fleet.measure(contender).await.is_zero());
    }
}

#[test]
fn medians_and_ratios_are_those_of_the_book() {
    assert!((median(&[3.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
    assert!((median(&[4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < f64::EPSILON);
    let samples = vec![
        vec![1.0, 2.0, 4.0],
        vec![2.0, 2.0, 2.0],
        vec![4.0, 4.0, 40.0],
        vec![1.0, 1.0, 1.0],
        vec![1.0, 1.0, 1.0],
    ];
    let rows = rows(samples);
    let warm = &rows[2];
    assert_eq!(warm.contender, Contender::Warm);
    assert!((warm.to_raw.of_medians - 2.0).abs() < f64::EPSILON);
    // Round by round: 4, 2, 10.
    assert!((warm.to_raw.paired - 4.0).abs() < f64::EPSILON);
    assert!((warm.max - 40.0).abs() < f64::EPSILON);
    assert!((warm.to_raw_signed.of_medians - 2.0).abs() < f64::EPSILON);
}
