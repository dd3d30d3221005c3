//! Whether run permits hold their cap, and what they cost: simulated runs of Puppet on daemons with the real pipeline and real
//! permits, by the nodes' own notes.
//!
//! Durations are those of the article's machines, 40 s in the mean and 150 s at the most, divided by a scale. Each seed draws them
//! anew, and a delay of up to 500 ms, divided as well, between a node's being asked and its lock. Several fleets, each with a broker
//! of its own, work through the seeds side by side: they mostly wait. A cap that is not held ends the measurement.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Args;
use muster_tests::puppet::{SimulatedBehaviour, SimulatedFleet};
use rand::SeedableRng;
use rand::rngs::StdRng;

/// The limits of the first table.
const LIMITS: [usize; 4] = [1, 2, 4, 16];
/// Threads that all fleets share.
const THREADS: usize = 2;

/// What to measure.
#[derive(Args)]
pub(crate) struct Permits {
    /// How many times durations are drawn
    #[arg(long, default_value_t = 50)]
    seeds: u64,
    /// Nodes of each fleet
    #[arg(long, default_value_t = 47)]
    nodes: usize,
    /// Fleets that work side by side
    #[arg(long, default_value_t = 6)]
    fleets: usize,
    /// By how much durations are divided
    #[arg(long, default_value_t = 100)]
    scale: u32,
    /// Nodes of the large fleet
    #[arg(long, default_value_t = 500)]
    large: usize,
    /// How many of them may run at once
    #[arg(long, default_value_t = 20)]
    large_limit: usize,
    /// By how much their durations are divided
    #[arg(long, default_value_t = 10)]
    large_scale: u32,
}

/// One rollout.
#[derive(Debug, Clone, Copy)]
struct Measured {
    limit: usize,
    highest: usize,
    makespan: Duration,
    least: Duration,
    ratio: f64,
    /// How many times as long as whoever asks in this order, and needs no time for asking.
    to_order: f64,
}

/// In which order nodes have their turn.
#[derive(Debug, Clone, Copy)]
enum Turns {
    /// As durations were drawn: by name.
    Name,
    /// Those with the longest run first, as `--longest-first` has it.
    Longest,
}

/// Measures and prints the tables.
pub(crate) fn bench(wanted: &Permits) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        for turns in [Turns::Name, Turns::Longest] {
            seeds(wanted, turns).await;
        }
        Box::pin(large(wanted)).await;
    });
    runtime.shutdown_background();
}

/// All limits with all seeds.
async fn seeds(wanted: &Permits, turns: Turns) {
    let next = Arc::new(AtomicU64::new(0));
    let mut fleets = tokio::task::JoinSet::new();
    for _ in 0..wanted.fleets.max(1) {
        let (next, nodes, seeds, scale) =
            (Arc::clone(&next), wanted.nodes, wanted.seeds, wanted.scale);
        fleets.spawn(async move {
            let fleet = SimulatedFleet::with_size(nodes).await;
            let mut measured = Vec::new();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= seeds {
                    return measured;
                }
                for limit in LIMITS {
                    measured.push(measure(&fleet, seed, limit, scale, turns).await);
                }
            }
        });
    }
    let measured: Vec<Measured> = fleets.join_all().await.into_iter().flatten().collect();
    let words = match turns {
        Turns::Name => "by name",
        Turns::Longest => "the longest first",
    };
    let (nodes, seeds, scale) = (wanted.nodes, wanted.seeds, wanted.scale);
    println!(
        "\n{nodes} nodes, {words}, {seeds} seeds, durations of 40 s in the mean divided by {scale}"
    );
    println!(
        "{:>6} {:>13} {:>11} {:>11} {:>8} {:>8} {:>8} {:>11}",
        "limit",
        "highest seen",
        "makespan",
        "least",
        "median x",
        "worst x",
        "<= 1.10",
        "x the order"
    );
    for limit in LIMITS {
        let of_limit = measured.iter().filter(|one| one.limit == limit);
        print_row(limit, &of_limit.copied().collect::<Vec<_>>());
    }
}

async fn large(wanted: &Permits) {
    let fleet = SimulatedFleet::with_size(wanted.large).await;
    let (nodes, limit, scale) = (wanted.large, wanted.large_limit, wanted.large_scale);
    println!(
        "\n{nodes} nodes, one seed by name and one the longest first, durations divided by {scale}"
    );
    for (seed, turns) in [(0, Turns::Name), (1, Turns::Longest)] {
        let one = measure(&fleet, seed, limit, scale, turns).await;
        print_row(limit, &[one]);
    }
}

/// One rollout. The longest first means that the first by name have drawn the longest.
async fn measure(
    fleet: &SimulatedFleet,
    seed: u64,
    limit: usize,
    scale: u32,
    turns: Turns,
) -> Measured {
    let mut lots = StdRng::seed_from_u64(seed);
    let mut drawn: Vec<SimulatedBehaviour> =
        fleet.nodes.keys().map(|_| SimulatedBehaviour::random(&mut lots, scale)).collect();
    if let Turns::Longest = turns {
        drawn.sort_by_key(|behaviour| std::cmp::Reverse(behaviour.work));
    }
    let ideal = in_order(drawn.iter().map(|behaviour| behaviour.work), limit);
    for (node, behaviour) in fleet.nodes.values().zip(drawn) {
        node.set_behaviour(behaviour);
    }
    fleet.clear_records();
    fleet.run_all(&format!("seed{seed}-{limit}"), limit).await;
    let proof = fleet.concurrency_stats();
    let nodes = fleet.nodes.len();
    assert_eq!(proof.runs, nodes, "seed {seed}, limit {limit}");
    let highest = proof.highest;
    assert!(highest <= limit, "seed {seed}: {highest} ran at once with a limit of {limit}");
    Measured {
        limit,
        highest,
        makespan: proof.makespan,
        least: proof.least_duration(limit),
        ratio: proof.makespan_ratio(limit).unwrap_or(1.0),
        to_order: proof.makespan.as_secs_f64() / ideal.as_secs_f64(),
    }
}

/// How long it takes when each begins, in this order, as soon as somebody before it has ended.
fn in_order(works: impl Iterator<Item = Duration>, limit: usize) -> Duration {
    let mut free = vec![Duration::ZERO; limit];
    for work in works {
        free.sort_unstable();
        if let Some(first) = free.first_mut() {
            *first += work;
        }
    }
    free.into_iter().max().unwrap_or_default()
}

fn print_row(limit: usize, measured: &[Measured]) {
    let middle = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    };
    let ms = |time: &dyn Fn(&Measured) -> Duration| {
        middle(measured.iter().map(|one| time(one).as_secs_f64() * 1000.0).collect())
    };
    let highest = measured.iter().map(|one| one.highest).max().unwrap_or(0);
    let worst = measured.iter().map(|one| one.ratio).fold(0.0, f64::max);
    let held = measured.iter().filter(|one| one.ratio <= 1.10).count();
    println!(
        "{limit:>6} {highest:>13} {:>8.0} ms {:>8.0} ms {:>8.3} {worst:>8.3} {held:>4}/{:<3} {:>11.3}",
        ms(&|one| one.makespan),
        ms(&|one| one.least),
        middle(measured.iter().map(|one| one.ratio).collect()),
        measured.len(),
        middle(measured.iter().map(|one| one.to_order).collect())
    );
}
