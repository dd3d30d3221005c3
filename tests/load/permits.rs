//! Whether run permits respect their limit, and what they cost: simulated Puppet runs on daemons with the real pipeline
//! and real permits, measured by the nodes' records.
//!
//! Durations are those of the article's machines, with a mean of 40 s and a maximum of 150 s, divided by a scale. Each
//! seed gives new durations, and a delay of up to 500 ms, also divided, between the request to a node and its lock.
//! Several fleets, each with its own broker, process the seeds in parallel, because they mostly wait. An exceeded limit
//! ends the measurement.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Args;
use muster_tests::puppet::{SimulatedBehaviour, SimulatedFleet};
use muster_tests::puppet_daemons::list_schedule;
use muster_wire::identity::Identity;
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::permit_daemons;

/// The limits of the first table.
const LIMITS: [usize; 4] = [1, 2, 4, 16];
/// Number of threads that all fleets share.
const THREADS: usize = 2;

/// Arguments of `load permits`.
#[derive(Args)]
pub(crate) struct PermitsArgs {
    /// Number of seeds for random durations
    #[arg(long, default_value_t = 50)]
    pub(crate) seeds: u64,
    /// Nodes of each fleet
    #[arg(long, default_value_t = 47)]
    pub(crate) nodes: usize,
    /// Fleets that run in parallel
    #[arg(long, default_value_t = 6)]
    fleets: usize,
    /// Divisor of durations
    #[arg(long, default_value_t = 100)]
    pub(crate) scale: u32,
    /// Nodes of the large fleet
    #[arg(long, default_value_t = 500)]
    large: usize,
    /// Limit of concurrent runs in the large fleet
    #[arg(long, default_value_t = 20)]
    large_limit: usize,
    /// Divisor of durations in the large fleet
    #[arg(long, default_value_t = 10)]
    large_scale: u32,
    /// Start a real rpcd for each node, and measure the lock of a scripted Puppet; for --seeds, --nodes, --limits and --scale
    #[arg(long)]
    pub(crate) daemons: bool,
    /// With --daemons: the limits
    #[arg(long, value_delimiter = ',', default_values_t = LIMITS)]
    pub(crate) limits: Vec<usize>,
    /// With --daemons: the first seed
    #[arg(long, default_value_t = 0)]
    pub(crate) first_seed: u64,
}

/// The result of one rollout.
#[derive(Debug, Clone, Copy)]
struct RolloutResult {
    limit: usize,
    highest: usize,
    makespan: Duration,
    minimum: Duration,
    ratio: f64,
    /// Ratio to an ideal rollout in the same order, in which requests take no time.
    to_order: f64,
    /// Number of runs that began before one that precedes them in the order.
    out_of_order: usize,
}

/// The order of the nodes.
#[derive(Debug, Clone, Copy)]
enum RunOrder {
    /// By name, which is the order of the random durations.
    Name,
    /// The longest runs first, as with `--longest-first`.
    Longest,
}

/// Measures, and prints the tables.
pub(crate) fn bench(arguments: &PermitsArgs) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .unwrap();
    if arguments.daemons {
        runtime.block_on(permit_daemons::bench(arguments));
        return runtime.shutdown_background();
    }
    runtime.block_on(async {
        for order in [RunOrder::Name, RunOrder::Longest] {
            bench_seeds(arguments, order).await;
        }
        Box::pin(bench_large(arguments)).await;
    });
    runtime.shutdown_background();
}

/// All limits with all seeds.
async fn bench_seeds(arguments: &PermitsArgs, order: RunOrder) {
    let next = Arc::new(AtomicU64::new(0));
    let mut fleets = tokio::task::JoinSet::new();
    for _ in 0..arguments.fleets.max(1) {
        let (next, nodes, seeds, scale) =
            (Arc::clone(&next), arguments.nodes, arguments.seeds, arguments.scale);
        fleets.spawn(async move {
            let fleet = SimulatedFleet::with_size(nodes).await;
            let mut measured = Vec::new();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= seeds {
                    return measured;
                }
                for limit in LIMITS {
                    measured.push(measure(&fleet, seed, limit, scale, order).await);
                }
            }
        });
    }
    let measured: Vec<RolloutResult> = fleets.join_all().await.into_iter().flatten().collect();
    let order_name = match order {
        RunOrder::Name => "by name",
        RunOrder::Longest => "longest first",
    };
    let (nodes, seeds, scale) = (arguments.nodes, arguments.seeds, arguments.scale);
    println!("\n{nodes} nodes, {order_name}, {seeds} seeds, mean duration 40 s divided by {scale}");
    println!(
        "{:>6} {:>13} {:>11} {:>11} {:>8} {:>8} {:>8} {:>11} {:>8} {:>8} {:>12}",
        "limit",
        "highest seen",
        "makespan",
        "least",
        "median x",
        "worst x",
        "<= 1.10",
        "x the order",
        "worst x",
        "<= 1.10",
        "out of order"
    );
    for limit in LIMITS {
        let of_limit = measured.iter().filter(|one| one.limit == limit);
        print_row(limit, &of_limit.copied().collect::<Vec<_>>());
    }
}

async fn bench_large(arguments: &PermitsArgs) {
    let fleet = SimulatedFleet::with_size(arguments.large).await;
    let (nodes, limit, scale) = (arguments.large, arguments.large_limit, arguments.large_scale);
    println!(
        "\n{nodes} nodes, one seed by name and one longest first, durations divided by {scale}"
    );
    for (seed, order) in [(0, RunOrder::Name), (1, RunOrder::Longest)] {
        let one = measure(&fleet, seed, limit, scale, order).await;
        print_row(limit, &[one]);
    }
}

/// One rollout. For longest first, the nodes that come first by name get the longest durations.
async fn measure(
    fleet: &SimulatedFleet,
    seed: u64,
    limit: usize,
    scale: u32,
    order: RunOrder,
) -> RolloutResult {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut behaviours: Vec<SimulatedBehaviour> =
        fleet.nodes.keys().map(|_| SimulatedBehaviour::random(&mut rng, scale)).collect();
    if let RunOrder::Longest = order {
        behaviours.sort_by_key(|behaviour| std::cmp::Reverse(behaviour.work));
    }
    let ideal = list_schedule(behaviours.iter().map(|behaviour| behaviour.work), limit);
    for (node, behaviour) in fleet.nodes.values().zip(behaviours) {
        node.set_behaviour(behaviour);
    }
    fleet.clear_records();
    fleet.run_all(&format!("seed{seed}-{limit}"), limit).await;
    let stats = fleet.concurrency_stats();
    let nodes = fleet.nodes.len();
    assert_eq!(stats.runs, nodes, "seed {seed}, limit {limit}");
    let highest = stats.highest;
    assert!(highest <= limit, "seed {seed}: {highest} concurrent runs with a limit of {limit}");
    RolloutResult {
        limit,
        highest,
        makespan: stats.makespan,
        minimum: stats.least_duration(limit),
        ratio: stats.makespan_ratio(limit).unwrap_or(1.0),
        to_order: stats.makespan.as_secs_f64() / ideal.as_secs_f64(),
        out_of_order: count_out_of_order(fleet),
    }
}

/// Number of runs that began before the run of a node that precedes them by name.
fn count_out_of_order(fleet: &SimulatedFleet) -> usize {
    let starts: BTreeMap<Identity, u64> = fleet.with_records(|records| {
        records.spans.iter().map(|(node, span)| (node.clone(), span.start)).collect()
    });
    let mut latest = 0;
    let is_early = |start: &&u64| {
        latest = latest.max(**start);
        **start < latest
    };
    starts.values().filter(is_early).count()
}

fn print_row(limit: usize, measured: &[RolloutResult]) {
    let middle = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    };
    let ms = |time: &dyn Fn(&RolloutResult) -> Duration| {
        middle(measured.iter().map(|one| time(one).as_secs_f64() * 1000.0).collect())
    };
    let highest = measured.iter().map(|one| one.highest).max().unwrap_or(0);
    let worst = measured.iter().map(|one| one.ratio).fold(0.0, f64::max);
    let within_limit = measured.iter().filter(|one| one.ratio <= 1.10).count();
    let worst_to_order = measured.iter().map(|one| one.to_order).fold(0.0, f64::max);
    let within_order = measured.iter().filter(|one| one.to_order <= 1.10).count();
    let out_of_order = measured.iter().map(|one| one.out_of_order).max().unwrap_or(0);
    println!(
        "{limit:>6} {highest:>13} {:>8.0} ms {:>8.0} ms {:>8.3} {worst:>8.3} {within_limit:>4}/{:<3} {:>11.3} {worst_to_order:>8.3} {within_order:>4}/{:<3} {out_of_order:>12}",
        ms(&|one| one.makespan),
        ms(&|one| one.minimum),
        middle(measured.iter().map(|one| one.ratio).collect()),
        measured.len(),
        middle(measured.iter().map(|one| one.to_order).collect()),
        measured.len()
    );
}
