//! Memory and processor time of an idle real daemon, and its memory after 100,000 requests.

#![expect(clippy::disallowed_methods, reason = "idle time is measured")]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use muster_calls::{CallTarget, Client};
use muster_filter::NodeFilter;
use muster_tests::requests::read_client_settings;
use muster_wire::fresh::{CLOCK_SKEW_MILLIS, remember_until};
use muster_wire::identity::Identity;

use crate::caller::{finish, ping_call};
use crate::demo::Demo;
use crate::process::{measure_cost, mib, proportional_memory, running_time};
use crate::report::{Figure, Section, Table};

const METHOD: &str = "Real daemons with TLS to their broker, from `rpc demo up`; one of them is started with every plugin that a node can have. \
Memory is the proportional share (Pss of smaps_rollup): shared pages are divided among their processes. Processor time is the kernel's count \
for all threads (schedstat) while no requests are sent. The requests are signed pings of one node, many at a time; the memory after them is \
read when the requests have been forgotten, after their time to live. After its start and after collecting facts, a daemon releases pages \
of its program that it does not need; the figures include the pages that idling needs, because the memory is read one minute later.";

/// Permitted memory of an idle daemon, in MiB.
const MAX_IDLE_MIB: f64 = 10.0;
/// Permitted processor time of an idle daemon, in percent of a core.
const MAX_IDLE_PERCENT: f64 = 0.05;
/// Permitted ratio of a daemon's memory after its work to that before.
const MAX_GROWTH: f64 = 1.1;
/// Number of concurrent requests.
const CONCURRENT_REQUESTS: u64 = 64;
/// Maximum number of attempts of one request.
const MAX_ATTEMPTS: usize = 300;
/// Interval at which a daemon collects its facts.
const FACTS_INTERVAL: Duration = Duration::from_mins(5);
/// How long a daemon is left idle before the measurement.
const SETTLE_TIME: Duration = Duration::from_secs(5);
/// How long idle daemons are measured, also in a short run: released pages that are needed return within a minute, and
/// would count as growth.
const IDLE_TIME: Duration = Duration::from_mins(1);

/// Measures an idle daemon, and one that answers this many requests.
pub(crate) fn bench(requests: u64) -> Section {
    let mut section = Section::of("An idle daemon", METHOD);
    let mut table = Table::new(["", "memory MiB", "x the broker's", "processor %"]);
    let single = Demo::start(1);
    let (node, _) = single.nodes().into_iter().next().unwrap();
    let everything = single.restart_with_all_plugins(&node);
    let usage = measure_idle(&[everything.pid()], single.broker());
    table.rows.push(usage.row("rpcd with every plugin, alone"));
    section.figures.extend([
        Figure::of("an idle daemon with every plugin: memory", usage.memory, "MiB")
            .aim(MAX_IDLE_MIB),
        Figure::of("an idle daemon with every plugin: processor", usage.percent, "%")
            .aim(MAX_IDLE_PERCENT),
        Figure::ratio(
            "an idle daemon's memory x that of rpc --version",
            usage.memory / mib(measure_cost(&single.rpc(&["--version"])).peak_kib * 1024),
        )
        .within(0.25),
    ]);
    measure_work(&mut section, &single, &node, everything.pid(), requests);
    drop(everything);
    drop(single);
    let five = Demo::start(5);
    let pids: Vec<u32> = five.nodes().into_iter().map(|(_, pid)| pid).collect();
    let usage = measure_idle(&pids, five.broker());
    table.rows.push(usage.row("rpcd, each of 5"));
    section.tables.insert(0, table);
    section
}

/// What idle daemons used.
struct IdleUsage {
    /// Mean memory per daemon, in MiB.
    memory: f64,
    /// Mean processor time per daemon, in percent of a core.
    percent: f64,
    /// The broker's memory in MiB.
    broker: f64,
}

impl IdleUsage {
    fn row(&self, name: &str) -> Vec<String> {
        vec![
            name.to_owned(),
            format!("{:.2}", self.memory),
            format!("{:.2}", self.memory / self.broker),
            format!("{:.4}", self.percent),
        ]
    }
}

fn measure_idle(pids: &[u32], broker: u32) -> IdleUsage {
    std::thread::sleep(SETTLE_TIME);
    let running = || pids.iter().copied().map(running_time).sum::<Duration>();
    let (before, start) = (running(), Instant::now());
    std::thread::sleep(IDLE_TIME);
    let ran = running().saturating_sub(before);
    let each = f64::from(u32::try_from(pids.len()).unwrap());
    IdleUsage {
        percent: ran.as_secs_f64() / start.elapsed().as_secs_f64() * 100.0 / each,
        memory: pids.iter().map(|pid| mib(proportional_memory(*pid))).sum::<f64>() / each,
        broker: mib(proportional_memory(broker)),
    }
}

/// Sends many requests to a daemon, and reads its memory before and after.
fn measure_work(section: &mut Section, demo: &Demo, node: &str, pid: u32, requests: u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut table = Table::new(["a daemon's memory", "MiB"]);
    let mut record_memory = |when: &str| {
        let memory = mib(proportional_memory(pid));
        table.rows.push(vec![when.to_owned(), format!("{memory:.2}")]);
        memory
    };
    let start = Instant::now();
    let before = record_memory("before the first request");
    runtime.block_on(async {
        let client = Client::connect(read_client_settings(&demo.directory().join("rpc.toml")))
            .await
            .unwrap();
        send_requests(&client, node, 1000.min(requests)).await;
        record_memory("after its first requests");
        send_requests(&client, node, requests).await;
        client.close().await.unwrap();
    });
    let elapsed = start.elapsed();
    record_memory(&format!("directly after {requests} more"));
    // Waits until the requests are stale, the daemon has forgotten them at its next collection of facts, and it has
    // been idle as before.
    std::thread::sleep(retention_time() + FACTS_INTERVAL + Duration::from_mins(1));
    let after = record_memory("after the requests were forgotten");
    section.tables.push(table);
    eprintln!("{requests} requests to one daemon took {elapsed:?}");
    section.figures.push(
        Figure::ratio("a daemon's memory after its work x before", after / before)
            .aim(MAX_GROWTH)
            .within(0.1),
    );
}

/// How long a node remembers a ping.
fn retention_time() -> Duration {
    let ttl = ping_call(CallTarget::Filter(NodeFilter::default()), Duration::ZERO).ttl;
    let ttl = u64::try_from(ttl.as_millis()).unwrap();
    Duration::from_millis(remember_until(0, ttl, CLOCK_SKEW_MILLIS))
}

async fn send_requests(client: &Client, node: &str, requests: u64) {
    let node = BTreeSet::from([Identity::parse(node).unwrap()]);
    let one = |_| {
        let call = ping_call(CallTarget::Nodes(node.clone()), Duration::from_secs(30));
        async move {
            // The number of requests that a node remembers per caller is limited; beyond it, the node replies that it
            // is busy for up to two minutes.
            for _ in 0..MAX_ATTEMPTS {
                if finish(client, call.clone()).await.ok == 1 {
                    return;
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            panic!("the node did not reply successfully in {MAX_ATTEMPTS} attempts");
        }
    };
    futures_util::stream::iter(0..requests)
        .for_each_concurrent(usize::try_from(CONCURRENT_REQUESTS).unwrap(), one)
        .await;
}
