//! `rpc listen` receives the replies to requests that another `rpc` sent with `--reply-to`.

use std::time::Duration;

use muster_tests::command::{RpcCommand, describe_output};
use muster_tests::fleet::{NodeSetup, TestNode};
use muster_tests::nats_server::{NETWORK_TIMEOUT, NatsServer};
use muster_tests::organisation::Organisation;
use muster_tests::published_schemas::{SchemaMode, check_schema};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Child;

struct ListenFixture {
    organisation: Organisation,
    server: NatsServer,
    nodes: Vec<TestNode>,
    rpc: RpcCommand,
}

impl ListenFixture {
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

    /// Starts a listener; returns when it has subscribed.
    async fn start_listener(&self, arguments: &[&str]) -> Child {
        let arguments = [&["listen", "night-shift"], arguments].concat();
        let mut child = self.rpc.prepare_command(&arguments).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
        let first = tokio::time::timeout(NETWORK_TIMEOUT, stderr.next_line()).await;
        let first = first.unwrap().unwrap().unwrap_or_default();
        assert!(
            first.starts_with("Listening on _R.U") && first.ends_with(".night-shift"),
            "{first}"
        );
        // Keeps the pipe open for later messages of the listener.
        tokio::spawn(async move { while let Ok(Some(_)) = stderr.next_line().await {} });
        child
    }

    /// Sends a request whose replies go to the listener; returns its id.
    async fn send_with_reply_to(&self, more: &[&str]) -> String {
        let request = ["do", "rpcutil", "get_fact", "fact=name"];
        let reply_to = ["--reply-to", "night-shift"];
        self.send_request(&[&request[..], &reply_to, more].concat()).await
    }

    async fn send_request(&self, arguments: &[&str]) -> String {
        let sent = self.rpc.run(arguments).await;
        assert!(sent.status.success(), "{}", describe_output(&sent));
        let text = String::from_utf8(sent.stdout).unwrap();
        let id = text.trim().strip_prefix("Request sent with id: ");
        id.unwrap().to_owned()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_to_another_process_are_shown_like_its_own() {
    let fixture = ListenFixture::new(&["a", "b"]).await;
    let arguments = ["rpcutil", "get_fact", "--expect", "2", "-j"];
    let listener = fixture.start_listener(&arguments).await;
    let request = fixture.send_with_reply_to(&[]).await;
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

    // As text, and with a filter on the action's outputs.
    let filter = ["--filter-replies", "data().value = b", "--senders"];
    let arguments = [&["rpcutil", "get_fact", "--expect", "2"], &filter[..]].concat();
    let listener = fixture.start_listener(&arguments).await;
    fixture.send_with_reply_to(&[]).await;
    let output = listener.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "b\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_are_printed_per_reply_until_interrupted() {
    let fixture = ListenFixture::new(&["a"]).await;
    let mut listener = fixture.start_listener(&["rpcutil", "get_fact", "--jsonl"]).await;
    let mut lines = BufReader::new(listener.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        fixture.send_with_reply_to(&[]).await;
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
    assert_eq!(listener.wait().await.unwrap().code(), Some(130));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_only_matching_replies_and_fails_on_too_few() {
    let fixture = ListenFixture::new(&["a"]).await;
    let unknown_request = "01890a5d-ac96-774b-bcce-b302099a8057";
    let arguments = ["rpcutil", "get_fact", "-j", "--expect"];
    let listener = fixture.start_listener(&[&arguments[..], &["1"]].concat()).await;
    let others = fixture
        .start_listener(&[&arguments[..], &["1", "--request", unknown_request]].concat())
        .await;
    let two = fixture.start_listener(&[&arguments[..], &["2"]].concat()).await;
    let ping = ["do", "rpcutil", "ping", "--reply-to", "night-shift"];
    fixture.send_request(&ping).await;
    let node = &fixture.nodes[0];
    // The first reply is to the discovery request.
    muster_tests::await_state("the ping is answered", || {
        node.core.snapshot_counters().replies == 2
    })
    .await;
    fixture.send_with_reply_to(&[]).await;
    let (document, code) = wait_for_document(listener).await;
    assert_eq!(code, 0);
    assert_eq!(document["request_stats"]["ok"], 1);
    assert_eq!(
        document["request_stats"]["disbelieved"],
        json!({"other_request": 1}),
        "{document:#}"
    );
    for (other, expected) in [(others, 0), (two, 1)] {
        interrupt(&other);
        let (document, code) = wait_for_document(other).await;
        assert_eq!(code, 130, "{document:#}");
        let stats = &document["request_stats"];
        assert!(stats["ok"].as_u64().unwrap() <= expected, "{document:#}");
        assert_eq!(stats["gaps"], json!(["interrupted"]));
    }
    let without_replies = fixture.start_listener(&["rpcutil", "ping", "-j", "-t", "0.5"]).await;
    let (document, code) = wait_for_document(without_replies).await;
    assert_eq!((code, &document["replies"]), (3, &json!([])));
}

fn interrupt(child: &Child) {
    let process = i32::try_from(child.id().unwrap()).unwrap();
    kill(Pid::from_raw(process), Signal::SIGINT).unwrap();
}

/// The document that a listener prints at its end, and its exit code.
async fn wait_for_document(listener: Child) -> (Value, i32) {
    let output = listener.wait_with_output().await.unwrap();
    let document: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", describe_output(&output)));
    check_schema("muster.request.v1", &document, SchemaMode::Strict).unwrap();
    (document, output.status.code().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listener_cannot_receive_replies_to_others() {
    let fixture = ListenFixture::new(&["a"]).await;
    let anna = fixture.organisation.caller("anna");
    let foreign = format!("_R.{}.night-shift", anna.public_key());
    let arguments = ["listen", &foreign, "rpcutil", "ping", "-t", "1"];
    let output = fixture.rpc.run(&arguments).await;
    assert_eq!(output.status.code(), Some(4), "{}", describe_output(&output));
    assert!(describe_output(&output).contains("replies cannot be sent to"));

    let rpc = RpcCommand::new(&fixture.server, &fixture.organisation, &anna, "");
    let listening = ["listen", "night-shift", "rpcutil", "get_fact", "-t", "2", "-j"];
    let other = rpc.prepare_command(&listening).spawn().unwrap();
    let own = fixture.start_listener(&["rpcutil", "get_fact", "--expect", "1"]).await;
    fixture.send_with_reply_to(&[]).await;
    let output = own.wait_with_output().await.unwrap();
    assert!(output.status.success(), "{}", describe_output(&output));
    let output = tokio::time::timeout(Duration::from_mins(1), other.wait_with_output());
    let output = output.await.unwrap().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", describe_output(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["replies"], json!([]));
}
