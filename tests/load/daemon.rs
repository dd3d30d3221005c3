//! What a real daemon takes that has nothing to do: memory and processor time; and whether a hundred thousand requests leave a trace.

#![expect(
    clippy::disallowed_methods,
    reason = "to have nothing to do for a while is what is measured"
)]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use muster_client::{BrokerAddress, CallTarget, Client, ClientSettings, DiscoveryWindow};
use muster_filter::NodeFilter;
use muster_wire::fresh::{CLOCK_SKEW_MILLIS, remember_until};
use muster_wire::identity::{Identity, SubjectName};

use crate::caller::{finish, ping};
use crate::demo::Demo;
use crate::process::{cost, mib, proportional, running_time};
use crate::report::{Figure, Section, Table};

const METHOD: &str = "Real daemons with TLS to their broker, from `rpc demo up`; one of them is started with every plugin that a node can have. \
Memory is the proportional share (Pss of smaps_rollup): of a program that several run, each has its part. Processor time is what the kernel \
counted for all threads (schedstat), while nobody asked anything. The requests are signed pings of one node, many at a time; the memory after \
them is looked at when requests have been forgotten, as seen ones are after their time to live. A daemon that has started, or has collected its facts, gives pages of its program back that it does not need; what idling needs of them is in the figures, because a minute passes before anybody looks.";

/// Most memory of an idle daemon, in MiB.
const AIM_MIB: f64 = 10.0;
/// Most of a core that it takes, in percent.
const AIM_PERCENT: f64 = 0.05;
/// How much more than at its beginning a daemon may have after its work.
const AIM_GROWTH: f64 = 1.1;
/// Requests that are under way at once.
const AT_ONCE: u64 = 64;
/// How often one of them is tried.
const TRIES: usize = 300;
/// How often a daemon collects its facts.
const FACTS: Duration = Duration::from_mins(5);
/// How long a daemon is left alone before it is looked at.
const SETTLING: Duration = Duration::from_secs(5);
/// How long idle daemons are watched, in a short run too: pages that they gave back come again within the minute, and would count as growth.
const IDLE: Duration = Duration::from_mins(1);

/// Measures; one daemon has to answer so many requests.
pub(crate) fn bench(requests: u64) -> Section {
    let mut section = Section::of("A daemon that has nothing to do", METHOD);
    let mut table = Table::new(["", "memory MiB", "x the broker's", "processor %"]);
    let alone = Demo::up(1);
    let (node, _) = alone.nodes().into_iter().next().unwrap();
    let everything = alone.enable_everything(&node);
    let watched = watch(&[everything.pid()], alone.broker());
    table.rows.push(watched.row("rpcd with every plugin, alone"));
    section.figures.extend([
        Figure::of("an idle daemon with every plugin: memory", watched.memory, "MiB").aim(AIM_MIB),
        Figure::of("an idle daemon with every plugin: processor", watched.percent, "%")
            .aim(AIM_PERCENT),
        Figure::ratio(
            "an idle daemon's memory x that of rpc --version",
            watched.memory / mib(cost(&alone.rpc(&["--version"])).peak_kib * 1024),
        )
        .within(0.25),
    ]);
    work(&mut section, &alone, &node, everything.pid(), requests);
    drop(everything);
    drop(alone);
    let five = Demo::up(5);
    let pids: Vec<u32> = five.nodes().into_iter().map(|(_, pid)| pid).collect();
    let watched = watch(&pids, five.broker());
    table.rows.push(watched.row("rpcd, each of 5"));
    section.tables.insert(0, table);
    section
}

/// What idle daemons took.
struct Watched {
    /// Of each, in the mean, in MiB.
    memory: f64,
    /// Of a core, of each.
    percent: f64,
    /// The broker's memory in MiB.
    broker: f64,
}

impl Watched {
    fn row(&self, name: &str) -> Vec<String> {
        vec![
            name.to_owned(),
            format!("{:.2}", self.memory),
            format!("{:.2}", self.memory / self.broker),
            format!("{:.4}", self.percent),
        ]
    }
}

fn watch(pids: &[u32], broker: u32) -> Watched {
    std::thread::sleep(SETTLING);
    let running = || pids.iter().copied().map(running_time).sum::<Duration>();
    let (before, begun) = (running(), Instant::now());
    std::thread::sleep(IDLE);
    let ran = running().saturating_sub(before);
    let each = f64::from(u32::try_from(pids.len()).unwrap());
    Watched {
        percent: ran.as_secs_f64() / begun.elapsed().as_secs_f64() * 100.0 / each,
        memory: pids.iter().map(|pid| mib(proportional(*pid))).sum::<f64>() / each,
        broker: mib(proportional(broker)),
    }
}

/// Has a daemon answer many requests, and looks at its memory before and after.
fn work(section: &mut Section, demo: &Demo, node: &str, pid: u32, requests: u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut table = Table::new(["a daemon's memory", "MiB"]);
    let mut look = |when: &str| {
        let memory = mib(proportional(pid));
        table.rows.push(vec![when.to_owned(), format!("{memory:.2}")]);
        memory
    };
    let began = Instant::now();
    let before = look("before it was asked anything");
    runtime.block_on(async {
        let client = Client::connect(demo.settings()).await.unwrap();
        ask(&client, node, 1000.min(requests)).await;
        look("after its first requests");
        ask(&client, node, requests).await;
        client.close().await.unwrap();
    });
    let took = began.elapsed();
    look(&format!("after {requests} more, at once"));
    // Until they are stale; then it forgets them when it next collects its facts, and is left alone as it was before.
    std::thread::sleep(remembered() + FACTS + Duration::from_mins(1));
    let after = look("when they are forgotten");
    section.tables.push(table);
    eprintln!("{requests} requests to one daemon took {took:?}");
    section.figures.push(
        Figure::ratio("a daemon's memory after its work x before", after / before)
            .aim(AIM_GROWTH)
            .within(0.1),
    );
}

/// How long a node remembers a ping.
fn remembered() -> Duration {
    let ttl = ping(CallTarget::Filter(NodeFilter::default()), Duration::ZERO).ttl;
    let ttl = u64::try_from(ttl.as_millis()).unwrap();
    Duration::from_millis(remember_until(0, ttl, CLOCK_SKEW_MILLIS))
}

async fn ask(client: &Client, node: &str, requests: u64) {
    let node = BTreeSet::from([Identity::parse(node).unwrap()]);
    let one = |_| {
        let call = ping(CallTarget::Nodes(node.clone()), Duration::from_secs(30));
        async move {
            // A caller may have a node remember so many requests, and no more within two minutes: then the node is busy.
            for _ in 0..TRIES {
                if finish(client, call.clone()).await.ok == 1 {
                    return;
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            panic!("{TRIES} times the node did not answer well");
        }
    };
    futures_util::stream::iter(0..requests)
        .for_each_concurrent(usize::try_from(AT_ONCE).unwrap(), one)
        .await;
}

impl Demo {
    /// What the library needs to be the demonstration's user.
    fn settings(&self) -> ClientSettings {
        let place = self.place();
        let text = std::fs::read_to_string(place.join("rpc.toml")).unwrap();
        let file: serde_json::Value = toml::from_str(&text).unwrap();
        let value = |pointer| file.pointer(pointer).unwrap().as_str().unwrap();
        ClientSettings {
            servers: vec![BrokerAddress::parse(value("/broker/urls/0"), false).unwrap()],
            authority: Some(place.join(value("/broker/ca"))),
            credentials: place.join(value("/broker/credentials")),
            operator: value("/trust/operator").to_owned(),
            account: place.join(value("/trust/account")),
            collective: SubjectName::parse(value("/collective")).unwrap(),
            window: DiscoveryWindow::default(),
        }
    }
}
