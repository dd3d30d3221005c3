//! A service key that answers for the directory: it chooses no node that executes a request.

use std::collections::BTreeMap;

use muster_bus::BusSubscription;
use muster_calls::{CallTarget, RpcCall};
use muster_contract::directory::DirectoryStatus;
use muster_ddl::EmptyInput;
use muster_filter::NodeFilter;
use muster_tests::command::describe_output;
use muster_tests::organisation::{Organisation, connect};
use muster_wire::identity::Identity;
use muster_wire::token::ServiceRight;
use serde_json::{Value, json};

use crate::directory::fixture::{
    ANSWER_TIMEOUT, DirectoryFixture, FleetNode, answer_for_directory,
};

const NODES: [&str; 2] = ["db1.acme.net", "web1.acme.net"];

/// A fleet with two nodes, db1 and web1, in which a stolen key answers for the directory with these names.
struct DeceivedFleet {
    fleet: DirectoryFixture,
    db1: FleetNode,
    _web1: FleetNode,
}

impl DeceivedFleet {
    async fn start(told: &[&str]) -> Self {
        let fleet = DirectoryFixture::start().await;
        let db1 = start_writable_node(&fleet);
        let web1 = fleet.start_node("web1.acme.net", r#"{"role": "web"}"#, "apache\n");
        fleet.await_found(&NODES).await;
        let liar = fleet.organisation.service(ServiceRight::Directory, "liar");
        let bus = connect(&fleet.server, &liar).await;
        let told = json!({"nodes": told, "total": 1, "freshness": {"ready": true}});
        answer_for_directory(bus, liar, move |_, _| told.clone()).await;
        Self { fleet, db1, _web1: web1 }
    }

    /// What a thief of this node's key, too, receives: the requests to the node.
    async fn intercept_requests(&self, node: &str) -> BusSubscription {
        let bus = connect(&self.fleet.server, &self.fleet.organisation.node(node)).await;
        let requests = bus.subscribe(&format!("muster.puppetral.*.node.{node}")).await.unwrap();
        bus.flush().await.unwrap();
        requests
    }
}

/// The node db1, to which files may be copied.
fn start_writable_node(fleet: &DirectoryFixture) -> FleetNode {
    let signer = fleet.organisation.node(NODES[0]);
    let home = fleet.node_home(&signer, r#"{"role": "db"}"#, "mysql\n");
    let copies = format!("[plugins.filecopy]\nwrite = [\"{}\"]\n", home.path("").display());
    home.write("conf.d/copies.toml", &copies, 0o644);
    FleetNode { signer, daemon: home.start() }
}

/// The encrypted inputs of the next request, as JSON.
async fn next_encrypted(requests: &mut BusSubscription) -> String {
    let request = requests.next().await.unwrap();
    let body: Value = serde_json::from_slice(request.payload()).unwrap();
    body.pointer("/body/sealed").cloned().unwrap_or_default().to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_of_a_lying_directory_are_checked_by_caller_and_node() {
    let DeceivedFleet { fleet, db1, .. } = &DeceivedFleet::start(&NODES[..1]).await;
    let file = db1.daemon.home().path("made");

    let name = format!("name={}", file.display());
    let options = ["ensure=present", "--yes", "--dm", "directory"];
    let request = [&["puppetral", "type=file", name.as_str()], &options[..]].concat();
    for filter in [&["-C", "apache"][..], &["-F", "role=web"], &["-S", "apache and not mysql"]] {
        let output = fleet.rpc.run(&[&["do"], &request[..], filter].concat()).await;
        let text = describe_output(&output);
        assert_eq!(output.status.code(), Some(2), "{filter:?}: {text}");
        assert!(text.contains("db1.acme.net"), "{filter:?}: {text}");
        assert!(text.contains("does not match the filter of the request"), "{filter:?}: {text}");
        assert!(!file.exists(), "{filter:?} ran on db1");
    }
    // A name that the caller's own patterns exclude is not even asked.
    let pattern = ["-I", "/^web/"];
    let output = fleet.rpc.run(&[&["do"], &request[..], &pattern].concat()).await;
    let text = describe_output(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("liar answered for the directory with the node db1.acme.net"), "{text}");
    assert!(!file.exists());
}

/// Operations of several requests: the first one decides who takes part.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_copied_or_deployed_to_the_names_of_a_lying_directory() {
    let DeceivedFleet { fleet, db1, .. } = &DeceivedFleet::start(&NODES[..1]).await;
    let site = fleet.rpc.path("site");
    std::fs::create_dir_all(site.join("facts.d")).unwrap();
    std::fs::write(site.join("facts.d/made.json"), "{}").unwrap();
    let (site, file) = (site.display().to_string(), fleet.rpc.path("site/facts.d/made.json"));
    let file = file.display().to_string();
    let (copied, deployed) =
        (db1.daemon.home().path("made.json"), db1.daemon.home().path("facts.d/made.json"));
    let target = format!(":{}", copied.display());
    let options = ["--yes", "--dm", "directory", "-C", "apache"];
    for command in [&["cp", file.as_str(), target.as_str()][..], &["config", "deploy", &site]] {
        let output = fleet.rpc.run(&[command, &options[..]].concat()).await;
        let text = describe_output(&output);
        assert_eq!(output.status.code(), Some(2), "{command:?}: {text}");
        assert!(text.contains("db1.acme.net"), "{command:?}: {text}");
        assert!(text.contains("does not match the filter of the request"), "{command:?}: {text}");
        assert!(!copied.exists() && !deployed.exists(), "{command:?} reached db1");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn list_of_a_lying_directory_ends() {
    let fleet = DirectoryFixture::start().await;
    let liar = fleet.organisation.service(ServiceRight::Directory, "liar");
    let bus = connect(&fleet.server, &liar).await;
    answer_for_directory(bus, liar, |_, input| {
        let after = input["after"].as_str().unwrap_or("n000000000");
        let first: usize = after.trim_start_matches('n').parse().unwrap();
        let names: Vec<String> =
            (first + 1..first + 10_000).map(|number| format!("n{number:09}")).collect();
        json!({"nodes": names, "total": 1, "next": names.last(), "freshness": {"ready": true}})
    })
    .await;
    let output = fleet.rpc.run(&["find", "--dm", "directory"]).await;
    let text = describe_output(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("does not end"), "{text}");
}

const SET_PASSWORD: [&str; 12] = [
    "do",
    "puppetral",
    "type=user",
    "name=rip",
    "password=$6$secret",
    "ensure=present",
    "--noop",
    "-C",
    "apache",
    "--yes",
    "--dm",
    "directory",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn password_is_encrypted_for_no_node_that_a_lying_directory_adds() {
    let deceived = DeceivedFleet::start(&NODES).await;
    let mut stolen = deceived.intercept_requests(NODES[0]).await;
    let mut honest = deceived.intercept_requests(NODES[1]).await;
    let text = describe_output(&deceived.fleet.rpc.run(&SET_PASSWORD).await);
    assert!(text.contains("does not match the filter of the request"), "{text}");
    let encrypted = next_encrypted(&mut honest).await;
    assert!(encrypted.contains(NODES[1]) && !encrypted.contains(NODES[0]), "{encrypted}");
    assert!(!next_encrypted(&mut stolen).await.contains(NODES[0]));
}

/// The thief of a node's key stops the node, and listens in its place: without an answer the node gets nothing, even if its key is known.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn password_is_encrypted_for_no_node_that_does_not_confirm_the_filter() {
    let deceived = DeceivedFleet::start(&NODES).await;
    let client = deceived.fleet.client().await;
    let nodes = || CallTarget::Nodes(NODES.map(|name| Identity::parse(name).unwrap()).into());
    let known = client.run_call(RpcCall::new("rpcutil", "ping", nodes()).unwrap(), |_| {});
    assert_eq!(known.await.unwrap().ok, 2);
    let mut stolen = deceived.intercept_requests(NODES[0]).await;
    deceived.db1.daemon.freeze().await;
    let mut call = RpcCall::new("puppetral", "do", nodes()).unwrap();
    call.filter = NodeFilter::default().with_class("apache").unwrap();
    call.data.insert("password".to_owned(), json!("$6$secret"));
    call.sensitive.insert("password".to_owned());
    let stats = client.run_call(call, |_| {}).await.unwrap();
    assert_eq!(stats.missing, [Identity::parse(NODES[0]).unwrap()].into());
    deceived.db1.daemon.thaw();
    // The next request to this node is the first one that arrives there.
    let mut last = RpcCall::new("puppetral", "last", nodes()).unwrap();
    last.data.insert("marker".to_owned(), json!(true));
    client.run_call(last, |_| {}).await.unwrap();
    let request = stolen.next().await.unwrap();
    let body: Value = serde_json::from_slice(request.payload()).unwrap();
    assert_eq!(body.pointer("/body/action"), Some(&json!("last")), "{body}");
}

/// A subscription of a stolen key gets every query that the broker distributes, but callers ask a listed instance by name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn directories_answer_their_share_of_the_queries_and_unlisted_ones_none() {
    /// A fair choice exceeds the limit once in 100,000 runs.
    const QUERIES: usize = 64;
    const MOST: usize = 49;
    let mut organisation = Organisation::new(&["muster"]);
    organisation.list_services(ServiceRight::Directory, &["directory1", "liar"]);
    let server = organisation.start_broker_with_stores().await;
    let fleet = DirectoryFixture::on_broker(organisation, server);
    let directory = fleet.start_directory("dir1.acme.net", "directory1");
    fleet.await_present(&["dir1.acme.net"]).await;
    for name in ["liar", "unlisted"] {
        let liar = fleet.organisation.service(ServiceRight::Directory, name);
        let bus = connect(&fleet.server, &liar).await;
        for _ in 0..20 {
            answer_for_directory(bus.clone(), liar.clone(), |_, _| json!({})).await;
        }
    }
    let client = fleet.client().await;
    let count_answers = async || {
        let mut answers: BTreeMap<String, usize> = BTreeMap::new();
        for _ in 0..QUERIES {
            let mut session = client.directory_session();
            session.query::<DirectoryStatus>(&EmptyInput {}, ANSWER_TIMEOUT).await.unwrap();
            *answers.entry(session.instance().unwrap().to_string()).or_default() += 1;
        }
        answers
    };
    let answers = count_answers().await;
    assert!(answers.keys().eq(["directory1", "liar"]), "{answers:?}");
    assert!(answers.values().all(|count| *count <= MOST), "{answers:?}");
    // A listed instance that has stopped costs no query.
    drop(directory);
    assert!(count_answers().await.keys().eq(["liar"]));
}
