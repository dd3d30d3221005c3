//! A thief with the key of one node writes records of that node that are as large as they can be. They hide no other node, and cost an instance of the
//! directory a bounded amount of memory.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_bus::{Bus, Bytes};
use muster_filter::state::{MapField, NodeFacts};
use muster_tests::command::describe_output;
use muster_tests::memory::anonymous_kib;
use muster_tests::organisation::connect;
use muster_tests::{now, poll_until_ok, tier};
use muster_wire::identity::SubjectName;
use muster_wire::limits::MAX_RECORD_BYTES;
use muster_wire::node_record::{NodeContent, NodeHeartbeat, NodeRecord};
use muster_wire::sign::{EnvelopeKind, Signer, sign_envelope};
use muster_wire::stores::NODES_BUCKET;
use muster_wire::subject;
use serde_json::{Value, json};
use uuid::Uuid;

use super::fixture::{DirectoryFixture, FleetNode, read_rows, read_status};

const HONEST: [&str; 2] = ["db1.acme.net", "dir1.acme.net"];
const THIEF: &str = "evil.acme.net";
const WAIT: Duration = Duration::from_mins(2);
/// Records of the flood.
const FLOOD_RECORDS: usize = 2000;
/// Memory of the whole process after the flood, in KiB; a daemon without a directory has about a third.
const MEMORY_AFTER_FLOOD_KIB: u64 = 64 * 1024;

/// Stolen keys that write as much as they can, in `make test` and in `make test-all`, with the directory's limit in MiB for each.
const STOLEN_KEYS: [(usize, u64); 2] = [(40, 16), (400, 64)];

/// A fleet, and a connection with the key of one of its nodes.
struct PoisonedFleet {
    fleet: DirectoryFixture,
    directory: FleetNode,
    _honest: FleetNode,
    thief: Signer,
    bus: Bus,
}

impl PoisonedFleet {
    async fn start() -> Self {
        Self::start_with("").await
    }

    /// A directory with these options.
    async fn start_with(options: &str) -> Self {
        let fleet = DirectoryFixture::start().await;
        let (signer, home) = fleet.directory_home(HONEST[1], "directory1", options);
        // Memory is given back when facts are collected.
        home.write("conf.d/facts.toml", "[facts]\nrefresh_seconds = 1\n", 0o644);
        let directory = FleetNode { signer, daemon: home.start() };
        let honest = fleet.start_node(HONEST[0], r#"{"tier": "test"}"#, "common\n");
        fleet.await_present(&HONEST).await;
        let thief = fleet.organisation.node(THIEF);
        let bus = connect(&fleet.server, &thief).await;
        Self { fleet, directory, _honest: honest, thief, bus }
    }

    /// Writes a record of the stolen node.
    async fn put(&self, content: &NodeContent) {
        put_record(&self.bus, &self.thief, content).await;
    }

    async fn send_heartbeat(&self) {
        let sender = self.thief.identity().clone();
        let heartbeat =
            NodeHeartbeat { sender, time: now(), digest: String::new(), boot: Uuid::now_v7() };
        let sealed = sign_envelope(EnvelopeKind::Heartbeat, &heartbeat, &self.thief).unwrap();
        self.bus.publish(&subject::heartbeat(THIEF), Bytes::from(sealed)).await.unwrap();
    }

    /// Waits until the directory refuses the newest record of the stolen node for this reason, and checks what every list says of all nodes.
    async fn await_problem(&self, problem: &str) {
        poll_until_ok(&format!("the record is refused: {problem}"), WAIT, async || {
            self.send_heartbeat().await;
            let (document, output) = self.fleet.rpc.run_json(&["nodes"]).await;
            let nodes = document["nodes"].as_array().cloned().unwrap_or_default();
            let row = nodes.iter().find(|row| row["node"] == THIEF).cloned().unwrap_or_default();
            let is_shown = row["state"] == "present"
                && row["problem"].as_str().is_some_and(|text| text.contains(problem));
            if is_shown { Ok(()) } else { Err(format!("{document:#} {output}")) }
        })
        .await;
        self.check_lists(&[HONEST[0], HONEST[1], THIEF]).await;
        for arguments in [&["nodes"][..], &["node", THIEF]] {
            let shown = describe_output(&self.fleet.rpc.run(arguments).await);
            assert!(shown.contains(problem), "{shown}");
        }
    }

    /// Every list has exactly these nodes.
    async fn check_lists(&self, names: &[&str]) {
        for arguments in [&["nodes", "-j"][..], &["nodes", "-j", "--fields", "big,tier"]] {
            let output = self.fleet.rpc.run(arguments).await;
            let rows = read_rows(&output.stdout);
            let found: Vec<&str> = rows.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(found, names, "{arguments:?}: {}", describe_output(&output));
        }
        let export = ["inventory", "--ansible", "--list"];
        let output = self.fleet.rpc.run(&export).await;
        let text = describe_output(&output);
        assert!(output.status.success(), "{text}");
        for name in names {
            assert!(text.contains(name), "{name}: {text}");
        }
        let found = self.fleet.rpc.run(&["find", "--dm", "directory", "-F", "tier=test"]).await;
        assert_eq!(found.stdout, format!("{}\n", HONEST[0]).into_bytes());
    }
}

async fn put_record(bus: &Bus, thief: &Signer, content: &NodeContent) {
    // The digest of an enormous content would take longer than everything else.
    let stable = NodeContent::default();
    let record = NodeRecord::new(thief.identity().clone(), now(), content, &stable).unwrap();
    let sealed = sign_envelope(EnvelopeKind::Record, &record, thief).unwrap();
    assert!(sealed.len() <= MAX_RECORD_BYTES, "{} bytes", sealed.len());
    let bucket = bus.bucket(NODES_BUCKET.name);
    bucket.put_unconfirmed(thief.identity().as_str(), Bytes::from(sealed)).await.unwrap();
    bus.flush().await.unwrap();
}

fn content() -> NodeContent {
    NodeContent {
        version: "0.1.0".to_owned(),
        collectives: vec![SubjectName::parse("muster").unwrap()],
        heartbeat_seconds: 60,
        ..NodeContent::default()
    }
}

fn facts(value: Value) -> NodeFacts {
    NodeFacts::from_value(value).unwrap()
}

/// The three records that broke every list: each is a few kilobytes in the bucket.
fn poisons() -> [(NodeContent, &'static str); 3] {
    let other = SubjectName::parse("x").unwrap();
    let mut collectives = content().collectives;
    collectives.resize(700_000, other);
    let bytes = "the decompressed text exceeds";
    [
        (NodeContent { collectives, ..content() }, bytes),
        (NodeContent { classes: Some(vec!["x".to_owned(); 900_000]), ..content() }, bytes),
        (NodeContent { facts: facts(json!({"big": "x".repeat(900_000)})), ..content() }, bytes),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn record_beyond_a_bound_hides_no_node_and_is_named() {
    let fleet = PoisonedFleet::start().await;
    for (poison, problem) in poisons() {
        fleet.put(&poison).await;
        fleet.await_problem(problem).await;
        // A good record ends it.
        fleet.put(&content()).await;
        fleet.fleet.await_present(&[HONEST[0], HONEST[1], THIEF]).await;
    }
    let many = |count: usize| (0..count).map(|number| format!("c{number}")).collect();
    fleet.put(&NodeContent { classes: Some(many(10_001)), ..content() }).await;
    fleet.await_problem("it has 10001 classes; at most 10000 are accepted").await;
    // What was known before stays known.
    fleet.put(&NodeContent { facts: facts(json!({"big": "kept"})), ..content() }).await;
    fleet.put(&poisons()[2].0).await;
    fleet.await_problem("exceeds").await;
    let kept = fleet.fleet.rpc.run(&["nodes", "--fields", "big"]).await;
    assert!(describe_output(&kept).contains("kept"), "{}", describe_output(&kept));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_within_the_bounds_never_exceed_an_answer() {
    let fleet = PoisonedFleet::start().await;
    let large = |letter: &str| json!(letter.repeat(250_000));
    // Together larger than an answer, and with all fields larger than a page.
    let state = facts(json!({"x": "y".repeat(120_000)}));
    let poison = NodeContent { facts: facts(json!({"big": large("a")})), ..content() };
    let poison = poison.with_map(MapField::State, state);
    fleet.put(&poison).await;
    fleet.fleet.await_present(&[HONEST[0], HONEST[1], THIEF]).await;
    fleet.check_lists(&[HONEST[0], HONEST[1], THIEF]).await;
    let fields = ["nodes", "--fields", "big,state.x"];
    let (document, _) = fleet.fleet.rpc.run_json(&fields).await;
    let nodes = document["nodes"].as_array().cloned().unwrap_or_default();
    assert_eq!(nodes.len(), 3, "{:.1000}", document.to_string());
    let node = fleet.fleet.rpc.run(&["node", THIEF]).await;
    assert!(node.status.success(), "{:.1000}", describe_output(&node));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flood_of_large_records_is_not_kept_in_memory() {
    let fleet = PoisonedFleet::start().await;
    let poisons = poisons();
    let status = async || read_status(&fleet.fleet.client().await).await;
    let refused = status().await.refused;
    let mut sent_poisons = 0;
    for number in 0..FLOOD_RECORDS / tier::case_step(4) {
        if number % 50 == 0 {
            fleet.put(&poisons[(number / 50) % 3].0).await;
            sent_poisons += 1;
            continue;
        }
        // Names that no other record has: nothing may be kept for them.
        let names = |kind: &str, count: usize| -> Vec<String> {
            (0..count).map(|name| format!("{kind}{number}_{name}")).collect()
        };
        let facts_map: BTreeMap<String, Value> =
            names("f", 200).into_iter().map(|name| (name, json!(number))).collect();
        let unique = NodeContent {
            version: format!("0.{number}"),
            classes: Some(names("c", 1000)),
            agents: names("a", 100).into_iter().map(|name| (name, "1".to_owned())).collect(),
            facts: facts(json!(facts_map)),
            ..content()
        };
        fleet.put(&unique).await;
    }
    fleet.put(&NodeContent { facts: facts(json!({"last": 1})), ..content() }).await;
    poll_until_ok("the last record is known", WAIT, async || {
        let found = fleet.fleet.rpc.run(&["find", "--dm", "directory", "-F", "last=1"]).await;
        if found.status.success() { Ok(()) } else { Err(describe_output(&found)) }
    })
    .await;
    assert_eq!(status().await.refused, refused + sent_poisons);
    fleet.check_lists(&[HONEST[0], HONEST[1], THIEF]).await;
    let pid = u32::try_from(fleet.directory.daemon.pid()).unwrap();
    poll_until_ok("the memory is given back", WAIT, async || {
        let kib = anonymous_kib(pid).unwrap();
        if kib <= MEMORY_AFTER_FLOOD_KIB { Ok(()) } else { Err(format!("{kib} KiB")) }
    })
    .await;
    // The index holds what the three nodes say now, and nothing of the flood.
    let status = status().await;
    assert!(status.values < 500 && status.value_bytes < 256 * 1024, "{status:?}");
}

/// As many names as a record may have, which no other node has: a few KiB in the bucket, megabytes in an index.
fn many_names(node: usize) -> NodeContent {
    let facts: BTreeMap<String, Value> =
        (0..2000).map(|fact| (format!("{node}_{fact}"), json!(1))).collect();
    let classes = (0..10_000).map(|class| format!("{node}_{class}")).collect();
    NodeContent {
        classes: Some(classes),
        facts: NodeFacts::from_value(json!(facts)).unwrap(),
        ..content()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_of_many_stolen_keys_leave_room_for_all_nodes() {
    let (keys, limit_mib) = STOLEN_KEYS[usize::from(tier::is_long())];
    let options = format!("memory_mib = {limit_mib}\n");
    let fleet = PoisonedFleet::start_with(&options).await;
    let mut names = vec![HONEST[0].to_owned(), HONEST[1].to_owned()];
    for number in 0..keys {
        let thief = fleet.fleet.organisation.node(&format!("evil{number:04}.acme.net"));
        let bus = connect(&fleet.fleet.server, &thief).await;
        put_record(&bus, &thief, &many_names(number)).await;
        names.push(thief.identity().to_string());
    }
    // A node that is new, and one that is known.
    let late = "web1.acme.net";
    let _late = fleet.fleet.start_node(late, r#"{"tier": "late"}"#, "");
    names.push(late.to_owned());
    names.sort();
    let expected: Vec<&str> = names.iter().map(String::as_str).collect();
    // The thieves send no heartbeats, so the first ones are missing before thousands are there.
    let is_listed = |state: &str| state == "present" || state == "missing";
    fleet.fleet.await_rows("every node is listed", &expected, is_listed).await;
    for (tier, node) in [("late", late), ("test", HONEST[0])] {
        let filter = format!("tier={tier}");
        poll_until_ok("the facts of the node are known", WAIT, async || {
            let found = fleet.fleet.rpc.run(&["find", "--dm", "directory", "-F", &filter]).await;
            let is_found = found.stdout == format!("{node}\n").into_bytes();
            if is_found { Ok(()) } else { Err(describe_output(&found)) }
        })
        .await;
    }
    let (document, _) = fleet.fleet.rpc.run_json(&["nodes", "--stale"]).await;
    let rows = document["nodes"].as_array().cloned().unwrap_or_default();
    let refused = rows.iter().filter(|row| {
        row["problem"].as_str().is_some_and(|text| text.contains("plugins.directory.memory_mib"))
    });
    let refused: Vec<&str> = refused.filter_map(|row| row["node"].as_str()).collect();
    assert!(refused.len() > keys / 2, "{} of {keys}", refused.len());
    assert!(refused.iter().all(|node| node.starts_with("evil")), "{refused:?}");
    let pid = u32::try_from(fleet.directory.daemon.pid()).unwrap();
    let bound = 2 * limit_mib * 1024 + MEMORY_AFTER_FLOOD_KIB;
    poll_until_ok("the memory is within its bound", WAIT, async || {
        let kib = anonymous_kib(pid).unwrap();
        if kib <= bound { Ok(()) } else { Err(format!("{kib} KiB, at most {bound}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_with_too_large_facts_says_what_to_exclude() {
    let fleet = DirectoryFixture::start().await;
    let _directory = fleet.start_directory(HONEST[1], "directory1");
    let large = json!({"inventory_of_files": "x".repeat(300_000)}).to_string();
    let node = fleet.start_node(HONEST[0], &large, "");
    poll_until_ok("the node and the directory say it", WAIT, async || {
        let (log, shown) =
            (node.daemon.log(), describe_output(&fleet.rpc.run(&["node", HONEST[0]]).await));
        let is_said = log.contains("inventory_of_files (300002 bytes)")
            && log.contains("exclude facts with registration.excluded_facts")
            && shown.contains("bytes of facts; at most 262144 are accepted");
        if is_said { Ok(()) } else { Err(format!("{shown}\n{log}")) }
    })
    .await;
    fleet.await_present(&HONEST).await;
}
