//! What time a rollout can take at best in a given order: why A2.2 holds for the longest first, and not for the order by name.

use std::time::Duration;

use muster_tests::puppet::SimulatedBehaviour;
use muster_tests::puppet_daemons::list_schedule;
use rand::SeedableRng;
use rand::rngs::StdRng;

/// Nodes and limits of A2.1 and A2.2.
const ROLLOUTS: [(usize, usize); 5] = [(47, 1), (47, 2), (47, 4), (47, 16), (500, 20)];
const SEEDS: u64 = 300;

fn seconds(works: &[Duration], limit: usize) -> f64 {
    list_schedule(works.iter().copied(), limit).as_secs_f64()
}

fn longest(works: &[Duration]) -> f64 {
    works.iter().max().unwrap().as_secs_f64()
}

/// The runs divided by the limit.
#[expect(clippy::cast_precision_loss, reason = "limits are small")]
fn share(works: &[Duration], limit: usize) -> f64 {
    works.iter().sum::<Duration>().as_secs_f64() / limit as f64
}

/// A2.2: max(sum/limit, longest) times 1.10 is enough for the longest first with the times of the article. In another order, a long run may start
/// last: no rollout that keeps the order by name is below 1.10 for all nodes, and none needs more than sum/limit and one longest run.
#[test]
fn a2_2_longest_first_is_within_a_tenth_and_any_order_within_one_run() {
    for (nodes, limit) in ROLLOUTS {
        let mut above = 0;
        for seed in 0..SEEDS {
            let mut rng = StdRng::seed_from_u64(seed);
            let mut works: Vec<Duration> =
                (0..nodes).map(|_| SimulatedBehaviour::random(&mut rng, 1).work).collect();
            let (share, longest) = (share(&works, limit), longest(&works));
            let by_name = seconds(&works, limit);
            assert!(by_name < share + longest, "{nodes} nodes, limit {limit}, seed {seed}");
            above += u64::from(by_name > 1.10 * share.max(longest));
            works.sort_unstable_by(|one, other| other.cmp(one));
            let ratio = seconds(&works, limit) / share.max(longest);
            assert!(ratio <= 1.10, "{nodes} nodes, limit {limit}, seed {seed}: {ratio}");
        }
        if limit == 16 {
            assert!(above * 2 > SEEDS, "by name, {above} of {SEEDS} are above 1.10");
        }
    }
}

/// The bound of any order is reached: many short runs, and a long one that begins when they have ended.
#[test]
fn a2_2_long_run_that_comes_last_needs_its_whole_time_more() {
    let second = Duration::from_secs(1);
    let works: Vec<Duration> = [vec![second; 16 * 15], vec![16 * second]].concat();
    assert!((seconds(&works, 16) - 31.0).abs() < 1e-9);
    assert!((share(&works, 16).max(longest(&works)) - 16.0).abs() < 1e-9);
}
