//! The drill of a day: a fleet of real daemons on a cluster of three brokers serves requests, while one thing after another is broken and repaired, in the order of a seed. At
//! the end each request has one result, no change was executed twice, and every node answers without a repair by hand.
//!
//! `MUSTER_DRILL_SECONDS` and `MUSTER_SEED` choose the duration and the order. The clocks stay right.

mod breakages;
mod callers;
mod fleet;

use std::time::Duration;

use breakages::Breakage;
use callers::DrillCallers;
use fleet::DrillFleet;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use tokio::time::Instant;

use crate::parity::print_line;

/// How long things are broken, without `MUSTER_DRILL_SECONDS`.
const DEFAULT_SECONDS: u64 = 30 * 60;

/// The number in a variable of the environment.
fn read_number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fleet_survives_a_day_of_failures() {
    let seed = read_number("MUSTER_SEED").unwrap_or_else(rand::random);
    let seconds = read_number("MUSTER_DRILL_SECONDS").unwrap_or(DEFAULT_SECONDS);
    print_line(&format!("MUSTER_SEED={seed} MUSTER_DRILL_SECONDS={seconds}"));
    let mut rng = StdRng::seed_from_u64(seed);
    let mut fleet = Box::pin(DrillFleet::start()).await;
    let callers = DrillCallers::start(&fleet).await;
    let begun = Instant::now();
    let mut counts = [0; Breakage::ALL.len()];
    let mut killed_callers = 0;
    while begun.elapsed() < Duration::from_secs(seconds) {
        for (index, breakage) in breakages::shuffle(&mut rng) {
            if begun.elapsed() >= Duration::from_secs(seconds) {
                break;
            }
            print_line(&format!("{:6.1} s: {breakage:?}", begun.elapsed().as_secs_f64()));
            Box::pin(breakage.run(&mut fleet, &mut rng)).await;
            *counts.get_mut(index).unwrap() += 1;
            killed_callers += usize::from(matches!(breakage, Breakage::KillCaller));
        }
    }
    print_line(&format!("{:?}: {counts:?} times", Breakage::ALL));
    let took = begun.elapsed();
    let records = callers.stop().await;
    fleet.await_recovered().await;
    let totals = callers::verify_records(&records, &fleet.read_effects(), killed_callers);
    fleet.strike_all().await;
    print_line(&format!("figures: {} requests in {took:?}: {totals:?}", records.len()));
    let expected = u64::from(callers::REQUESTS_PER_SECOND) * took.as_secs();
    assert!(records.len() as u64 >= expected * 9 / 10, "only {} requests", records.len());
    // One node or one server is away at a time.
    assert!(totals.done * 10 >= records.len() * 8, "{totals:?}");
}
