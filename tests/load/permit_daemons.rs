//! `load permits --daemons`: whether run permits respect their limit with real `rpcd` processes and `rpc puppet runall`,
//! and how the time compares with an ideal rollout.
//!
//! Each seed gives new durations and a delay of up to 500 ms between the begin of Puppet and its lock; only the durations
//! are divided by the scale. The nodes measure their locks themselves. For each seed the nodes run by name, then longest
//! first, by the durations that the first rollout made known. An exceeded limit
//! ends the measurement. The order is measured too: nodes whose places become free at once may begin in either order.

use std::time::Duration;

use muster_tests::puppet::SimulatedBehaviour;
use muster_tests::puppet_daemons::{MeasuredRollout, PuppetDaemonFleet};
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::permits::PermitsArgs;

/// The permitted ratio of the makespan to that of the ideal rollout.
const MAX_RATIO: f64 = 1.10;

/// The result of one rollout.
struct DaemonRollout {
    highest: usize,
    makespan: f64,
    ideal: f64,
    /// The ideal time of the durations that the programs really took.
    ideal_measured: f64,
    least: f64,
    /// Starts before a node that precedes in the printed order, and the largest lead in seconds.
    early_starts: usize,
    earliest: f64,
}

/// Measures, and prints a table for each limit.
pub(crate) async fn bench(arguments: &PermitsArgs) {
    let fleet = PuppetDaemonFleet::start(arguments.nodes).await;
    println!(
        "{} real daemons; durations: mean 40 s, maximum 150 s, divided by {}; 0 to 500 ms before the lock",
        arguments.nodes, arguments.scale
    );
    for limit in &arguments.limits {
        let (mut by_name, mut longest_first) = (Vec::new(), Vec::new());
        for seed in arguments.first_seed..arguments.first_seed + arguments.seeds {
            let mut rng = StdRng::seed_from_u64(seed);
            let behaviours: Vec<SimulatedBehaviour> = (0..arguments.nodes)
                .map(|_| SimulatedBehaviour::random_with_full_delay(&mut rng, arguments.scale))
                .collect();
            fleet.set_behaviours(&behaviours);
            by_name.push(measure(&fleet, seed, *limit, &[]).await);
            // With a limit of one, the order does not change the time.
            if *limit > 1 {
                longest_first.push(measure(&fleet, seed, *limit, &["--longest-first"]).await);
            }
        }
        println!(
            "\nlimit {limit}, seeds {} to {}",
            arguments.first_seed,
            arguments.first_seed + arguments.seeds - 1
        );
        print_header();
        print_row("by name, x ideal in order", &by_name, |one| one.ideal);
        print_row("by name, x ideal measured", &by_name, |one| one.ideal_measured);
        print_row("longest first, x least", &longest_first, |one| one.least);
        print_row("longest first, x ideal measured", &longest_first, |one| one.ideal_measured);
    }
}

async fn measure(
    fleet: &PuppetDaemonFleet,
    seed: u64,
    limit: usize,
    options: &[&str],
) -> DaemonRollout {
    let rollout: MeasuredRollout = fleet.run_all(limit, options).await;
    let highest = rollout.program_stats().highest;
    assert!(highest <= limit, "seed {seed}: {highest} programs at once with a limit of {limit}");
    assert!(
        rollout.lock_stats().highest <= limit,
        "seed {seed}: the locks exceed the limit {limit}"
    );
    let (early_starts, earliest) = rollout.early_starts();
    let seconds = |time: Duration| time.as_secs_f64();
    let one = DaemonRollout {
        highest,
        makespan: seconds(rollout.makespan()),
        ideal: seconds(rollout.ideal_makespan(limit)),
        ideal_measured: seconds(rollout.ideal_measured_makespan(limit)),
        least: seconds(rollout.least_makespan(limit)),
        early_starts,
        earliest: seconds(earliest),
    };
    eprintln!(
        "limit {limit}, seed {seed} {options:?}: at most {highest}, {:.2} s, ideal {:.2} s ({:.3}), ideal of measured durations {:.2} s ({:.3}), least {:.2} s ({:.3}), {early_starts} early by at most {:.3} s",
        one.makespan,
        one.ideal,
        one.makespan / one.ideal,
        one.ideal_measured,
        one.makespan / one.ideal_measured,
        one.least,
        one.makespan / one.least,
        one.earliest
    );
    one
}

fn print_header() {
    println!(
        "{:<32} {:>8} {:>11} {:>11} {:>9} {:>8} {:>8} {:>6} {:>9}",
        "", "highest", "makespan", "bound", "median x", "worst x", "<= 1.10", "early", "by at most"
    );
}

fn print_row(name: &str, measured: &[DaemonRollout], bound: impl Fn(&DaemonRollout) -> f64) {
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    };
    let column = |value: &dyn Fn(&DaemonRollout) -> f64| measured.iter().map(value).collect();
    let ratios: Vec<f64> = column(&|one| one.makespan / bound(one));
    let Some(highest) = measured.iter().map(|one| one.highest).max() else {
        return;
    };
    println!(
        "{name:<32} {highest:>8} {:>9.2} s {:>9.2} s {:>9.3} {:>8.3} {:>4}/{:<3} {:>6} {:>7.0} ms",
        median(column(&|one| one.makespan)),
        median(column(&|one| bound(one))),
        median(ratios.clone()),
        ratios.iter().copied().fold(0.0, f64::max),
        ratios.iter().filter(|ratio| **ratio <= MAX_RATIO).count(),
        measured.len(),
        measured.iter().map(|one| one.early_starts).sum::<usize>(),
        measured.iter().map(|one| one.earliest).fold(0.0, f64::max) * 1000.0
    );
}
