//! `rpc listen`: what was sent with `--reply-to` by one `rpc` is answered to another one.

use std::time::Duration;

use muster_tests::command::{RpcCommand, describe_output};
use muster_tests::fleet::{NodeSetup, TestNode};
use muster_tests::nats_server::{NatsServer, PATIENCE};
use muster_tests::organisation::Organisation;
use muster_tests::published::{SchemaMode, check_schema};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Child;

struct World {
    organisation: Organisation,
    server: NatsServer,
    nodes: Vec<TestNode>,
    rpc: RpcCommand,
}

impl World {
    async fn new(names: &[&str]) -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker().await;
        let mut nodes = Vec::new();
        for name in names {
            let mut setup = NodeSetup::new(organisation.node(name));
            setup.facts = json!({"name": name});
            nodes.push(TestNode::start(&organisation, &server, setup).await);
        }
        let rpc = RpcCommand::new(&server, &organisation, &organisation.caller("rip"), "");
        Self { organisation, server, nodes, rpc }
    }

    /// A listener that nothing can be lost to any more.
    async fn listen(&self, arguments: &[&str]) -> Child {
        let arguments = [&["listen", "night-shift"], arguments].concat();
        let mut child = self.rpc.prepare_command(&arguments).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
        let first = tokio::time::timeout(PATIENCE, said.next_line()).await;
        let first = first.unwrap().unwrap().unwrap_or_default();
        assert!(
            first.starts_with("Listening on _R.U") && first.ends_with(".night-shift"),
            "{first}"
        );
        // What else it says must not find the pipe closed.
        tokio::spawn(async move { while let Ok(Some(_)) = said.next_line().await {} });
        child
    }

    /// Asks for a fact; the answers go to the listener. The request's id.
    async fn send(&self, more: &[&str]) -> String {
        let request = ["do", "rpcutil", "get_fact", "fact=name"];
        let elsewhere = ["--reply-to", "night-shift"];
        self.post(&[&request[..], &elsewhere, more].concat()).await
    }

    async fn post(&self, arguments: &[&str]) -> String {
        let sent = self.rpc.run(arguments).await;
        assert!(sent.status.success(), "{}", describe_output(&sent));
        let text = String::from_utf8(sent.stdout).unwrap();
        let id = text.trim().strip_prefix("Request sent with id: ");
        id.unwrap().to_owned()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_to_another_process_are_shown_as_if_it_had_asked() {
    let world = World::new(&["a", "b"]).await;
    let asked = ["rpcutil", "get_fact", "--expect", "2", "-j"];
    let listener = world.listen(&asked).await;
    let request = world.send(&[]).await;
    let output = listener.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", describe_output(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    check_schema("muster.request.v1", &document, SchemaMode::Strict).unwrap();
    assert_eq!(document["request_stats"]["requestid"], json!(request), "{document:#}");
    assert_eq!(document["request_stats"]["ok"], 2);
    let replies = document["replies"].as_array().unwrap();
    for reply in replies {
        assert_eq!(reply["data"]["value"], reply["sender"]);
    }
    assert_ne!(replies[0]["sender"], replies[1]["sender"]);

    // For people, and with a filter that knows the action's outputs.
    let filter = ["--filter-replies", "data().value = b", "--senders"];
    let asked = [&["rpcutil", "get_fact", "--expect", "2"], &filter[..]].concat();
    let listener = world.listen(&asked).await;
    world.send(&[]).await;
    let output = listener.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "b\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_come_as_they_are_answered_until_the_listener_is_interrupted() {
    let world = World::new(&["a"]).await;
    let mut listener = world.listen(&["rpcutil", "get_fact", "--jsonl"]).await;
    let mut lines = BufReader::new(listener.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        world.send(&[]).await;
        let line = lines.next_line().await.unwrap().unwrap();
        let line: Value = serde_json::from_str(&line).unwrap();
        check_schema("muster.request.lines.v1", &line, SchemaMode::Strict).unwrap();
        assert_eq!((&line["kind"], &line["sender"]), (&json!("result"), &json!("a")));
    }
    interrupt(&listener);
    let mut last = Value::Null;
    while let Some(line) = lines.next_line().await.unwrap() {
        last = serde_json::from_str(&line).unwrap();
    }
    assert_eq!(last["request_stats"]["ok"], 2, "{last:#}");
    assert_eq!(listener.wait().await.unwrap().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_what_was_meant_counts_and_too_little_is_no_success() {
    let world = World::new(&["a"]).await;
    let nobody = "01890a5d-ac96-774b-bcce-b302099a8057";
    let asked = ["rpcutil", "get_fact", "-j", "--expect"];
    let listener = world.listen(&[&asked[..], &["1"]].concat()).await;
    let others = world.listen(&[&asked[..], &["1", "--request", nobody]].concat()).await;
    let two = world.listen(&[&asked[..], &["2"]].concat()).await;
    let ping = ["do", "rpcutil", "ping", "--reply-to", "night-shift"];
    world.post(&ping).await;
    let node = &world.nodes[0];
    // The first answer is to the search for nodes.
    muster_tests::await_state("the ping is answered", || {
        node.core.snapshot_counters().replies == 2
    })
    .await;
    world.send(&[]).await;
    let (document, code) = ended(listener).await;
    assert_eq!(code, 0);
    assert_eq!(document["request_stats"]["ok"], 1);
    assert_eq!(
        document["request_stats"]["disbelieved"],
        json!({"other_request": 1}),
        "{document:#}"
    );
    for (other, heard) in [(others, 0), (two, 1)] {
        interrupt(&other);
        let (document, code) = ended(other).await;
        assert_eq!(code, 2, "{document:#}");
        let stats = &document["request_stats"];
        assert!(stats["ok"].as_u64().unwrap() <= heard, "{document:#}");
        assert_eq!(stats["gaps"], json!(["interrupted"]));
    }
    let silence = world.listen(&["rpcutil", "ping", "-j", "-t", "0.5"]).await;
    let (document, code) = ended(silence).await;
    assert_eq!((code, &document["replies"]), (3, &json!([])));
}

fn interrupt(child: &Child) {
    let process = i32::try_from(child.id().unwrap()).unwrap();
    kill(Pid::from_raw(process), Signal::SIGINT).unwrap();
}

/// What a listener prints in the end, and its exit code.
async fn ended(listener: Child) -> (Value, i32) {
    let output = listener.wait_with_output().await.unwrap();
    let document: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", describe_output(&output)));
    check_schema("muster.request.v1", &document, SchemaMode::Strict).unwrap();
    (document, output.status.code().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_listens_to_what_is_answered_to_others() {
    let world = World::new(&["a"]).await;
    let anna = world.organisation.caller("anna");
    let foreign = format!("_R.{}.night-shift", anna.public_key());
    let arguments = ["listen", &foreign, "rpcutil", "ping", "-t", "1"];
    let output = world.rpc.run(&arguments).await;
    assert_eq!(output.status.code(), Some(4), "{}", describe_output(&output));
    assert!(describe_output(&output).contains("replies cannot be sent to"));

    let rpc = RpcCommand::new(&world.server, &world.organisation, &anna, "");
    let listening = ["listen", "night-shift", "rpcutil", "get_fact", "-t", "2", "-j"];
    let other = rpc.prepare_command(&listening).spawn().unwrap();
    let own = world.listen(&["rpcutil", "get_fact", "--expect", "1"]).await;
    world.send(&[]).await;
    let output = own.wait_with_output().await.unwrap();
    assert!(output.status.success(), "{}", describe_output(&output));
    let output = tokio::time::timeout(Duration::from_mins(1), other.wait_with_output());
    let output = output.await.unwrap().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", describe_output(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["replies"], json!([]));
}
