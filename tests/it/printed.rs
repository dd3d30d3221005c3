//! What programs read of the real `rpc`: every document is one, is whole, and is what its published schema says, whatever
//! happens to the request; and lines come while nodes are still at work.

#![expect(clippy::indexing_slicing, reason = "documents are indexed; tests end by panic")]

use std::collections::BTreeSet;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use muster_api::{ActionError, Agent, CallContext};
use muster_tests::await_state;
use muster_tests::command::{Command, told};
use muster_tests::fleet::{Blueprint, TestNode};
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::Organisation;
use muster_tests::published::{self, Reader, check};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout};
use tokio::sync::Semaphore;

/// The node that does not end before it may.
const SLOW: &str = "slow";

#[derive(Clone)]
struct Work {
    may_end: Arc<Semaphore>,
    at_work: Arc<AtomicUsize>,
}

#[derive(Deserialize)]
struct Given {
    what: String,
}

#[derive(Serialize)]
struct Done {
    done: String,
}

/// Does what it is told; on the slow node only once it may.
async fn do_work(work: Work, cx: CallContext, given: Given) -> Result<Done, ActionError> {
    let node = cx.node.identity().as_str();
    if node == SLOW && given.what != "quick" {
        work.at_work.fetch_add(1, Ordering::Relaxed);
        // A semaphore is closed by nobody here.
        work.may_end.acquire().await.unwrap().forget();
    }
    if node == "bad" && given.what == "fail" {
        return Err(ActionError::failed("it did not work"));
    }
    Ok(Done { done: given.what })
}

fn ddl() -> Value {
    json!({
        "default_action": "do",
        "metadata": {"name": "work", "description": "d", "author": "a", "license": "l", "version": "1.0.0", "url": "u", "timeout": 600},
        "actions": [{"action": "do", "description": "d", "display": "always",
                     "input": {"what": {"prompt": "p", "description": "d", "type": "string", "validation": ".", "maxlength": 20, "optional": false}},
                     "output": {"done": {"description": "d", "display_as": "Done", "type": "string"}}}],
    })
}

struct World {
    _server: NatsServer,
    nodes: Vec<TestNode>,
    desk: Command,
    may_end: Arc<Semaphore>,
    at_work: Arc<AtomicUsize>,
}

impl World {
    /// A fleet of these nodes. The one called `strict` lets nobody do anything.
    async fn new(names: &[&str]) -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.broker().await;
        let (may_end, at_work) = (Arc::new(Semaphore::new(0)), Arc::default());
        let mut nodes = Vec::new();
        for name in names {
            let mut blueprint = Blueprint::new(organisation.node(name));
            blueprint.facts = json!({"name": name});
            if *name == "strict" {
                let text = "policy default deny\nallow\t*\tping\t*\n".to_owned();
                blueprint.policies = vec![("default.policy".to_owned(), text)];
            }
            let work = Work { may_end: Arc::clone(&may_end), at_work: Arc::clone(&at_work) };
            let agent = Agent::builder(&ddl().to_string()).unwrap();
            blueprint.agents = vec![agent.action("do", &work, do_work).build().unwrap()];
            nodes.push(TestNode::start(&organisation, &server, blueprint).await);
        }
        let desk = Command::new(&server, &organisation, &organisation.caller("rip"), "");
        desk.add_schema("work", &ddl());
        Self { _server: server, nodes, desk, may_end, at_work }
    }

    /// Waits until the slow node is at work.
    async fn slow_is_at_work(&self) {
        let at_work = || self.at_work.load(Ordering::Relaxed) > 0;
        await_state("the slow node is at work", at_work).await;
    }

    /// A file at the desk, as an argument.
    fn file(&self, name: &str, text: &str) -> String {
        self.desk.write(name, text);
        self.path(name)
    }

    fn path(&self, name: &str) -> String {
        self.desk.path(name).into_os_string().into_string().unwrap()
    }
}

/// Holds a document against the schema that it names, and answers the name.
fn valid(document: &Value) -> String {
    let name = document["schema"].as_str().unwrap_or_default().to_owned();
    check(&name, document, Reader::Strict).unwrap();
    name
}

/// The next line, which is what its schema says.
async fn next(lines: &mut Lines<BufReader<ChildStdout>>) -> Option<Value> {
    let line = lines.next_line().await.unwrap()?;
    let line: Value = serde_json::from_str(&line).unwrap();
    check("muster.request.lines.v1", &line, Reader::Strict).unwrap();
    Some(line)
}

fn interrupt(child: &Child) {
    let process = i32::try_from(child.id().unwrap()).unwrap();
    kill(Pid::from_raw(process), Signal::SIGINT).unwrap();
}

/// All that is printed for programs, with what must be there before; the network is needed for the first only.
async fn documents(world: &World) -> Vec<Value> {
    let desk = &world.desk;
    let lost = world.file("lost", "good\ngone\n");
    let good_ddl = world.file("good.json", &ddl().to_string());
    let bad_ddl = world.file("bad.json", "{\"metadata\": 7}");
    let policies = world.path("policies");
    std::fs::create_dir(&policies).unwrap();
    world.file("policies/work.policy", "policy default deny\nallow\tanna\t*\t*\n");
    world.file("policies/odd.policy", "policy default perhaps\n");
    std::fs::create_dir(world.path("rules")).unwrap();
    world.file("rules/work.policy", "policy default allow\n");
    let cases = world.file(
        "cases.toml",
        "policies = \"rules\"\n[[cases]]\ncaller = \"rip\"\nagent = \"work\"\naction = \"do\"\nexpect = \"deny\"\n",
    );
    let log = world.nodes[0].audit_file().display().to_string();
    let nobody = "01890a5d-ac96-774b-bcce-b302099a8057";
    let fleet = world.path("fleet.json");
    let exported = desk.run(&["inventory", "--export", &fleet]).await;
    assert!(exported.status.code() != Some(1), "{}", told(&exported));
    let commands: &[&[&str]] = &[
        &["do", "work", "what=fail", "--trace"],
        &["do", "work", "what=x", "--nodes", &lost, "--expect", "1"],
        &["do", "rpcutil", "ping", "-F", "name=nobody"],
        &["cancel", nobody],
        &["ping", "--trace"],
        &["ping", "-F", "name=nobody"],
        &["find", "-W", "name=good"],
        &["facts", "name"],
        &["filter", "test", &fleet, "name=good and puppet().enabled"],
        &["inventory", "good"],
        &["inventory", "gone"],
        &["inventory", "--collectives"],
        &["explain", "work", "what=x"],
        &["explain", "work", "what=x", "-I", "good"],
        &["job", "list"],
        &["doctor"],
        &["stats"],
        &["plugin", "list"],
        &["plugin", "check", &good_ddl, &bad_ddl],
        &["policy", "check", &policies],
        &[
            "policy", "explain", "--caller", "rip", "--agent", "work", "--action", "do", "--dir",
            &policies,
        ],
        &["policy", "test", &cases],
        &["audit", "verify", &log],
    ];
    let mut all = Vec::new();
    for arguments in commands {
        all.push(desk.document(arguments).await.0);
    }
    let jobs = &desk.document(&["job", "list"]).await.0["jobs"];
    let ids: Vec<&str> = jobs.as_array().unwrap().iter().map(id).collect();
    all.push(desk.document(&["job", "show", ids[0]]).await.0);
    all.push(desk.document(&["job", "diff", ids[1], ids[0]]).await.0);
    all
}

fn id(job: &Value) -> &str {
    job["id"].as_str().unwrap()
}

/// What is printed of an organisation.
async fn organisation(world: &World) -> Vec<Value> {
    let directory = world.path("acme");
    for arguments in [
        &["org", "init", &directory, "--no-tls"][..],
        &["org", "add", "user", "anna", "--org", &directory],
    ] {
        let output = world.desk.run(arguments).await;
        assert!(output.status.success(), "{}", told(&output));
    }
    let mut all = Vec::new();
    for word in ["list", "show"] {
        let arguments = ["org", word, "--org", &directory];
        all.push(world.desk.document(&arguments).await.0);
    }
    let arguments = ["org", "show", "anna", "--org", &directory];
    let (parties, _) = world.desk.document(&arguments).await;
    all.extend(parties.as_array().unwrap().clone());
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_document_is_what_its_published_schema_says() {
    let world = World::new(&["good", "bad", "strict"]).await;
    let mut seen = BTreeSet::new();
    for document in documents(&world).await {
        seen.insert(valid(&document));
    }
    for document in organisation(&world).await {
        seen.insert(valid(&document));
    }
    let lines = ["do", "work", "what=fail", "--jsonl"];
    let output = world.desk.run(&lines).await;
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        check("muster.request.lines.v1", &line, Reader::Strict).unwrap();
    }
    seen.insert("muster.request.lines.v1".to_owned());
    // Those of runs and permits are held by `runs.rs`, where nodes have a Puppet; that of provisioning by `provisioning.rs`.
    let elsewhere = |name: &String| {
        name.starts_with("muster.puppet.")
            || name == "muster.permits.v1"
            || name == "muster.provision.v1"
    };
    let published: BTreeSet<String> =
        published::names().into_iter().filter(|name| !elsewhere(name)).collect();
    assert_eq!(seen, published, "every published schema is printed by somebody");

    let listed = world.desk.run(&["schema"]).await;
    let listed = String::from_utf8(listed.stdout).unwrap();
    for name in &published {
        assert!(listed.contains(name.as_str()), "{name}: {listed}");
        let printed = world.desk.run(&["schema", name]).await;
        let printed: Value = serde_json::from_slice(&printed.stdout).unwrap();
        assert_eq!(printed["$id"], name.as_str());
    }
}

#[test]
fn schemas_find_what_was_renamed_and_let_pass_what_was_added() {
    let name = "muster.ping.v1";
    let document = json!({"schema": name, "replies": [{"sender": "a", "time_ms": 1.5, "clock_skew_ms": 0}],
                          "statistics_ms": null, "incomplete": false});
    assert_eq!(check(name, &document, Reader::Strict), Ok(()));
    let mut renamed = document.clone();
    renamed["replies"][0] = json!({"node": "a", "time_ms": 1.5, "clock_skew_ms": 0});
    assert!(check(name, &renamed, Reader::Tolerant).is_err());
    let mut other = document.clone();
    other["schema"] = json!("muster.ping.v2");
    assert!(check(name, &other, Reader::Tolerant).is_err());
    let mut added = document;
    added["replies"][0]["colour"] = json!("blue");
    assert_eq!(check(name, &added, Reader::Tolerant), Ok(()));
    assert!(check(name, &added, Reader::Strict).is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_come_while_a_node_is_still_at_work() {
    let world = World::new(&["good", SLOW]).await;
    let request = ["do", "work", "what=x", "--jsonl"];
    let mut child = world.desk.prepared(&request).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = next(&mut lines).await.unwrap();
    assert_eq!(first["kind"], "discovered");
    assert_eq!(first["nodes"], json!(["good", SLOW]));
    // Nobody lets the slow node end before this line was read.
    let second = next(&mut lines).await.unwrap();
    assert_eq!((&second["kind"], &second["sender"]), (&json!("result"), &json!("good")));
    assert_eq!(child.try_wait().unwrap(), None, "it waits for the slow node");
    world.slow_is_at_work().await;
    world.may_end.add_permits(1);
    let third = next(&mut lines).await.unwrap();
    assert_eq!((&third["kind"], &third["sender"]), (&json!("result"), &json!(SLOW)));
    assert_eq!(next(&mut lines).await.unwrap()["kind"], "summaries");
    assert_eq!(next(&mut lines).await.unwrap()["request_stats"]["ok"], 2);
    assert_eq!(next(&mut lines).await, None);
    assert!(child.wait().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_is_one_whole_document_whatever_happens() {
    let world = World::new(&["good", "bad", "strict", SLOW]).await;
    let lost = world.file("lost", "good\nbad\nstrict\ngone\n");
    let request = ["do", "work", "what=fail", "--nodes", &lost];
    let (document, exit) = world.desk.document(&request).await;
    assert_eq!(exit, 2, "{document:#}");
    valid(&document);
    let stats = &document["request_stats"];
    assert_eq!((&stats["ok"], &stats["failed"]), (&json!(1), &json!(2)));
    assert_eq!(stats["not_connected"], json!(["gone"]));
    let replies = document["replies"].as_array().unwrap();
    let denied = replies.iter().find(|reply| reply["sender"] == "strict");
    assert_eq!(denied.unwrap()["reason"]["kind"], "denied");

    let (document, exit) =
        world.desk.document(&["do", "work", "what=x", "-F", "name=nobody"]).await;
    assert_eq!(exit, 1);
    valid(&document);
    assert_eq!(document["request_stats"]["discovered"], 0);

    let alone = ["do", "work", "what=x", "-t", "1", "-I", SLOW];
    let (document, exit) = world.desk.document(&alone).await;
    assert_eq!(exit, 2);
    valid(&document);
    assert_eq!(document["replies"][0]["reason"]["kind"], "timeout", "{document:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_request_prints_its_document_too() {
    let world = World::new(&["good", SLOW]).await;
    let request = ["do", "work", "what=x", "-j"];
    let child = world.desk.prepared(&request).spawn().unwrap();
    world.slow_is_at_work().await;
    interrupt(&child);
    let output = child.wait_with_output().await.unwrap();
    world.may_end.add_permits(1);
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    valid(&document);
    let stats = &document["request_stats"];
    assert_eq!(stats["incomplete"], true, "{stats:#}");
    assert_eq!(stats["gaps"], json!(["interrupted"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filtered_replies_are_the_nodes_of_the_next_command() {
    let world = World::new(&["good", "bad"]).await;
    let filter = ["--filter-replies", "not ok()"];
    let request = [&["do", "work", "what=fail", "-j"], &filter[..]].concat();
    let mut first = world.desk.prepared(&request).spawn().unwrap();
    let pipe: Stdio = first.stdout.take().unwrap().try_into().unwrap();
    let mut second = world.desk.prepared(&["do", "work", "what=again", "--nodes", "-", "-j"]);
    let output = second.stdin(pipe).output().await.unwrap();
    assert_eq!(first.wait().await.unwrap().code(), Some(2));
    assert!(output.status.success(), "{}", told(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let replies = document["replies"].as_array().unwrap();
    let senders: Vec<&Value> = replies.iter().map(|reply| &reply["sender"]).collect();
    assert_eq!(senders, ["bad"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn templates_are_filled_in_for_nodes_and_their_inventories() {
    let world = World::new(&["good", "bad"]).await;
    let printed = async |arguments: &[&str]| {
        let output = world.desk.run(arguments).await;
        let code = output.status.code().unwrap();
        (String::from_utf8(output.stdout.clone()).unwrap(), code)
    };
    let found = printed(&["find", "--template", "{{ node }} user=root"]).await;
    assert_eq!(found, ("bad user=root\ngood user=root\n".to_owned(), 0));
    let line = "{{ node }}: {{ facts.name }} {{ 'work' in agents }}";
    let all = printed(&["inventory", "--template", line]).await;
    assert_eq!(all, ("bad: bad True\ngood: good True\n".to_owned(), 0));
    let file = world.file("line", line);
    let one = printed(&["inventory", "good", "--template", &format!("@{file}")]).await;
    assert_eq!(one, ("good: good True\n".to_owned(), 0));
    let filtered = ["inventory", "--template", line, "-F", "name=bad"];
    assert_eq!(printed(&filtered).await, ("bad: bad True\n".to_owned(), 0));

    for (wrong, code) in [
        (&["inventory", "--template", "{{ sender }}"][..], 4),
        (&["find", "--template", "{{ facts.name }}"], 4),
        (&["inventory", "gone", "--template", line], 3),
        (&["inventory", "--template", line, "-F", "name=nobody"], 1),
        (&["inventory", "-F", "name=bad"], 4),
        (&["inventory", "good", "--collectives"], 4),
        (&["inventory", "--template", line, "--collectives"], 4),
    ] {
        assert_eq!(printed(wrong).await, (String::new(), code), "{wrong:?}");
    }
}
