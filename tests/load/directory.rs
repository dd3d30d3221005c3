//! The directory with a large fleet: how long it takes to read the records, its memory, and queries by the real command beside a closure over the same data.

#![expect(clippy::disallowed_types, reason = "complete programs are measured")]

use std::hint::black_box;
use std::process::Command;
use std::time::{Duration, Instant};

use muster_bus::{Bus, Bytes};
use muster_filter::state::NodeFacts;
use muster_tests::command::RpcCommand;
use muster_tests::organisation::Organisation;
use muster_tests::poll_until_ok;
use muster_tests::rpcd::{DaemonHome, Rpcd};
use muster_wire::identity::Identity;
use muster_wire::node_record::{NodeContent, NodeRecord};
use muster_wire::sign::{EnvelopeKind, sign_envelope};
use muster_wire::stores::NODES_BUCKET;
use muster_wire::token::ServiceRight;
use muster_wire::token::UserCredentials;
use serde_json::{Value, json};

use crate::caller::{ConnectionKind, connect};
use crate::client::rpc;
use crate::measure::millis;
use crate::process::{mib, resident_memory, run_timed};
use crate::report::{Figure, Section, Table, median};

const METHOD: &str = "Records of as many nodes with 300 facts each are in the bucket; an rpcd with an instance of the directory reads them, and `rpc find` and \
`rpc nodes` ask it, process start included. 60 facts are the same on many nodes, 40 differ, the others are nested and the same on some. The closure \
is hand-written for the same condition, over the same facts in memory, and finds the same nodes. Memory is that of the daemon, per node.";

/// Facts of each node.
const FACTS: usize = 300;
/// Writes that are under way at once.
const CONCURRENT_WRITES: usize = 64;
/// How long the instance may take to read all records.
const READY_TIMEOUT: Duration = Duration::from_mins(2);
/// Permitted time of an indexed query and of a scan, in milliseconds.
const MAX_INDEXED_MS: f64 = 50.0;
const MAX_SCAN_MS: f64 = 1000.0;

/// A query by the command, and its closure.
struct QueryCase {
    name: &'static str,
    arguments: &'static [&'static str],
    aim_ms: f64,
    closure: fn(&NodeFacts) -> bool,
}

const CASES: [QueryCase; 4] = [
    QueryCase {
        name: "find, two facts (indexed)",
        arguments: &["find", "-F", "customer=acme", "-F", "site=site8"],
        aim_ms: MAX_INDEXED_MS,
        closure: |facts| {
            text(facts, "customer") == Some("acme") && text(facts, "site") == Some("site8")
        },
    },
    QueryCase {
        name: "find, a fact that is unique (indexed)",
        arguments: &["find", "-F", "network.address=10.0.1.7"],
        aim_ms: MAX_INDEXED_MS,
        closure: |facts| text(facts, "network.address") == Some("10.0.1.7"),
    },
    QueryCase {
        name: "find, a number above a limit (scan)",
        arguments: &["find", "-F", "processors.count>=60"],
        aim_ms: MAX_SCAN_MS,
        closure: |facts| {
            facts.get("processors.count").and_then(Value::as_u64).is_some_and(|count| count >= 60)
        },
    },
    QueryCase {
        name: "find, all nodes",
        arguments: &["find"],
        aim_ms: MAX_SCAN_MS,
        closure: |_| true,
    },
];

fn text<'a>(facts: &'a NodeFacts, path: &str) -> Option<&'a str> {
    facts.get(path).and_then(Value::as_str)
}

/// Measures with this many nodes and instances.
pub(crate) fn bench(nodes: usize, rounds: usize, instances: usize) -> Section {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let section = runtime.block_on(measure(nodes, rounds, instances));
    runtime.shutdown_background();
    section
}

async fn measure(nodes: usize, rounds: usize, instances: usize) -> Section {
    let title = match instances {
        1 => format!("The directory with {nodes} nodes"),
        _ => format!("The directory with {nodes} nodes and {instances} instances"),
    };
    let mut section = Section::of(title, METHOD);
    eprintln!("{nodes} records for the directory: writing");
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker_with_stores().await;
    let writer = organisation.unrestricted_user("writer");
    let bus = connect(&[server.url()], &writer, ConnectionKind::Command).await;
    let facts: Vec<NodeFacts> = (0..nodes).map(node_facts).collect();
    write_records(&organisation, &bus, &facts).await;

    let started = Instant::now();
    let daemons: Vec<Rpcd> = (1..=instances)
        .map(|number| start_directory(&organisation, &server.url(), number))
        .collect();
    let mut ready = Duration::ZERO;
    for daemon in &daemons {
        ready = ready.max(await_ready(daemon, started).await);
    }
    let read = Figure::of("records are read after", ready.as_secs_f64(), "s");
    // The aim is that of one instance on this machine's two processors.
    section.figures.push(if instances == 1 { read.aim(5.0) } else { read });
    let memory = daemons.iter().map(|daemon| resident_memory(daemon_pid(daemon))).max().unwrap();
    #[expect(clippy::cast_precision_loss, reason = "a figure")]
    let per_node = memory as f64 / 1024.0 / nodes as f64;
    section.figures.push(Figure::of("memory of the daemon per node", per_node, "KiB"));

    let caller = organisation.caller("regular");
    let command = RpcCommand::new(&server, &organisation, &caller, "");
    let mut table = Table::new(["query", "nodes", "command ms", "closure ms", "x closure"]);
    for case in &CASES {
        let (found, command_ms, closure_ms) = case.measure(&command, &facts, rounds);
        let ratio = command_ms / closure_ms;
        table.rows.push(vec![
            case.name.to_owned(),
            found.to_string(),
            format!("{command_ms:.1}"),
            format!("{closure_ms:.2}"),
            format!("{ratio:.1}"),
        ]);
        let name = format!("{}, whole command", case.name);
        section.figures.push(Figure::of(name, command_ms, "ms").aim(case.aim_ms));
    }
    section.tables.push(table);
    section.figures.push(Figure::of("memory of the daemon", mib(memory), "MiB"));
    section
}

impl QueryCase {
    /// The number of nodes found, and the median times of the command and of the closure in milliseconds.
    fn measure(&self, home: &RpcCommand, facts: &[NodeFacts], rounds: usize) -> (usize, f64, f64) {
        let expected = facts.iter().filter(|facts| (self.closure)(facts)).count();
        let command = || -> Command { rpc(&home.home(), self.arguments) };
        let output = command().output().unwrap();
        let found = String::from_utf8(output.stdout).unwrap().lines().count();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(found, expected, "{}: {stderr}", self.name);
        assert!(stderr.is_empty(), "{stderr}");
        let (mut command_ms, mut closure_ms) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            command_ms.push(millis(run_timed(&mut command())));
            let started = Instant::now();
            black_box(facts.iter().filter(|facts| (self.closure)(black_box(facts))).count());
            closure_ms.push(millis(started.elapsed()));
        }
        (found, median(&command_ms), median(&closure_ms))
    }
}

fn pick<'a>(values: &[&'a str], number: usize) -> &'a str {
    values.get(number % values.len()).copied().unwrap()
}

/// Facts as of a real machine: most are the same on many nodes, some differ on each.
fn node_facts(number: usize) -> NodeFacts {
    let mut facts = serde_json::Map::new();
    facts.insert(
        "customer".to_owned(),
        json!(pick(&["acme", "initech", "umbrella", "hooli"], number)),
    );
    facts.insert("site".to_owned(), json!(format!("site{}", number % 20)));
    facts.insert("processors".to_owned(), json!({"count": number % 64, "models": ["x86_64"]}));
    let address = format!("10.{}.{}.{}", number / 65_536, number / 256 % 256, number % 256);
    let network = json!({"address": address, "mtu": 1500, "interfaces": {"eth0": {"ip": address}}});
    facts.insert("network".to_owned(), network);
    facts.insert(
        "os".to_owned(),
        json!({"family": pick(&["Debian", "RedHat"], number), "release": {"full": "12.5"}}),
    );
    while facts.len() < FACTS {
        let at = facts.len();
        let value = match at % 7 {
            0 => json!(format!("unique {number} {at}")),
            1 => json!({"a": at, "b": {"c": number % 10, "d": "text of some length"}}),
            _ => json!(format!("a value that is the same on all nodes, number {at}")),
        };
        facts.insert(format!("fact_{at}"), value);
    }
    NodeFacts::from_map(facts).unwrap()
}

async fn write_records(organisation: &Organisation, bus: &Bus, facts: &[NodeFacts]) {
    use futures_util::{StreamExt as _, stream};
    let bucket = bus.bucket(NODES_BUCKET.name);
    stream::iter(facts.iter().enumerate())
        .for_each_concurrent(CONCURRENT_WRITES, |(number, facts)| {
            let bucket = &bucket;
            async move {
                let name = Identity::parse(&format!("web{number:05}.example.net")).unwrap();
                let signer = organisation.node(name.as_str());
                let content = NodeContent {
                    version: "0.1.0".to_owned(),
                    collectives: vec![organisation.collective().clone()],
                    agents: [("rpcutil".to_owned(), "1.0.0".to_owned())].into(),
                    classes: Some(vec!["apache".to_owned(), format!("role{}", number % 30)]),
                    facts: facts.clone(),
                    heartbeat_seconds: 3600,
                    ..NodeContent::default()
                };
                let time = muster_tests::now();
                let record = NodeRecord::new(name.clone(), time, &content, &content).unwrap();
                let sealed = sign_envelope(EnvelopeKind::Record, &record, &signer).unwrap();
                bucket.put(name.as_str(), Bytes::from(sealed)).await.unwrap();
            }
        })
        .await;
}

/// Starts a daemon with an instance of the directory. It does not register itself.
pub(crate) fn start_directory(organisation: &Organisation, url: &str, number: usize) -> Rpcd {
    let host = organisation.node(&format!("directory{number}.example.net"));
    let home = DaemonHome::new(organisation, &host, url, "");
    let service = organisation.service(ServiceRight::Directory, &format!("directory{number}"));
    let creds = UserCredentials::new(&service.token(), service.key_pair().clone()).unwrap();
    home.write("directory1.creds", &creds.to_text(), 0o600);
    let options = format!(
        "[registration]\nenabled = false\n[plugins.directory]\nenabled = true\ncredentials = \"{}\"\n",
        home.path("directory1.creds").display()
    );
    home.write("conf.d/directory.toml", &options, 0o644);
    home.start()
}

/// The time until the instance says that it has read all records.
pub(crate) async fn await_ready(daemon: &Rpcd, started: Instant) -> Duration {
    poll_until_ok("the directory is ready", READY_TIMEOUT, async || {
        let log = daemon.log();
        if log.contains("the directory is ready") { Ok(()) } else { Err(log) }
    })
    .await;
    started.elapsed()
}

fn daemon_pid(daemon: &Rpcd) -> u32 {
    u32::try_from(daemon.pid()).unwrap()
}
