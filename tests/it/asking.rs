//! Requests by the real `rpc`: without answers, at a terminal, with every stage, and explained instead of sent.

use std::sync::atomic::Ordering;

use muster_tests::await_state;
use muster_tests::command::{RpcCommand, describe_output};
use serde_json::{Value, json};

use crate::shaping::STAGES;
use crate::workers::{World, schema};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_without_answers_is_sent_and_done() {
    let world = World::new(2, "").await;
    let output = world.desk.run(&["do", "work", "what=x", "--no-results"]).await;
    let said = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(said.starts_with("Request sent with id: 0"), "{}", describe_output(&output));
    await_state("both are done", || world.gate.total.load(Ordering::Relaxed) == 2).await;
    assert_eq!(world.job().await["job"]["state"], "unattended");
}

/// A request that nobody waits for once went to everybody, whatever its filter said.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_without_answers_keeps_its_filter() {
    let world = World::new(3, "").await;
    for filter in ["-F number=2", "-F number=4", "-S number=2"] {
        let arguments: Vec<&str> =
            ["do", "work", "what=x", "--nr"].into_iter().chain(filter.split(' ')).collect();
        let output = world.desk.run(&arguments).await;
        let expected = i32::from(filter.ends_with('4'));
        assert_eq!(output.status.code(), Some(expected), "{}", describe_output(&output));
    }
    // Nodes take requests in their order: when all have answered this one, those before it have been taken too.
    let (_, code) = world.desk.run_json(&["do", "work", "what=x"]).await;
    assert_eq!(code, 0);
    // A search and a request each time; the second node twice more.
    let passed: Vec<u64> =
        world.nodes.iter().map(|node| node.core.snapshot_counters().passed).collect();
    assert_eq!(passed, [2, 6, 2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_waited_for_who_cannot_confirm() {
    let world = World::new(2, "confirm_above = 0").await;
    // No terminal: as ever, unless the configuration insists.
    assert_eq!(world.desk.run(&["do", "work", "what=x"]).await.status.code(), Some(0));
    let strict = RpcCommand::new(
        &world.server,
        &world.organisation,
        &world.organisation.caller("amy"),
        "confirm = \"always\"",
    );
    strict.add_schema("work", &schema());
    let before = world.gate.total.load(Ordering::Relaxed);
    let refused = strict.run(&["do", "work", "what=x"]).await;
    assert_eq!(refused.status.code(), Some(4), "{}", describe_output(&refused));
    assert!(describe_output(&refused).contains("--yes"), "{}", describe_output(&refused));
    assert_eq!(world.gate.total.load(Ordering::Relaxed), before);
    assert_eq!(strict.run(&["do", "work", "what=x", "--yes"]).await.status.code(), Some(0));
    assert_eq!(strict.run(&["do", "rpcutil", "ping"]).await.status.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_a_terminal_many_nodes_are_changed_only_after_a_yes() {
    let world = World::new(2, "confirm_above = 1").await;
    for (answer, exit, done) in [("n\n", 1, 0), ("\n", 1, 0), ("y\n", 0, 2)] {
        let terminal = nix::pty::openpty(None, None).unwrap();
        let slave = || std::process::Stdio::from(terminal.slave.try_clone().unwrap());
        let mut command = world.desk.prepare_command(&["do", "work", "what=x", "--np"]);
        let child = command.stdin(slave()).stderr(slave()).spawn().unwrap();
        nix::unistd::write(&terminal.master, answer.as_bytes()).unwrap();
        let output = child.wait_with_output().await.unwrap();
        assert_eq!(output.status.code(), Some(exit), "{answer:?}: {}", describe_output(&output));
        assert_eq!(world.gate.total.load(Ordering::Relaxed), done, "{answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_followed_request_shows_every_stage_here_and_there() {
    let world = World::new(1, "").await;
    let (document, exit) = world.desk.run_json(&["do", "work", "what=x", "--trace"]).await;
    assert_eq!(exit, 0);
    let stages = document["replies"][0]["trace"]["stages"].as_array().unwrap();
    let names: Vec<&str> = stages.iter().map(|stage| stage["stage"].as_str().unwrap()).collect();
    assert_eq!(names, STAGES);
    let here = &document["request_stats"]["trace"];
    for stage in ["discover_us", "sign_us", "publish_us"] {
        assert!(here[stage].as_u64().is_some(), "{here}");
    }
    assert!(here["traceparent"].as_str().unwrap().starts_with("00-"));

    let text = describe_output(&world.desk.run(&["do", "work", "what=x", "--trace"]).await);
    for stage in
        STAGES.iter().chain(&["discover", "sign", "publish", "network", "verify here", "total"])
    {
        assert!(text.contains(&format!("\n   {stage} ")), "{stage}: {text}");
    }
    let pinged = describe_output(&world.desk.run(&["ping", "--trace"]).await);
    assert!(pinged.contains("\n   authorise ") && pinged.contains("\n   network "), "{pinged}");

    // Whoever started us has a trace already.
    let given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let mut command = world.desk.prepare_command(&["do", "work", "what=x", "--trace", "-j"]);
    let output = command.env("TRACEPARENT", given).output().await.unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["request_stats"]["trace"]["traceparent"], given);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explaining_shows_what_would_be_sent_and_sends_nothing() {
    let world = World::new(1, "").await;
    let request = ["explain", "work", "do", "what=x", "token=s3cret", "-F", "number=1"];
    let (document, exit) = world.desk.run_json(&request).await;
    assert_eq!(exit, 0);
    assert_eq!(document["discovery"]["subjects"], json!(["muster.rpcutil.ping.all"]));
    let sent = &document["requests"][0];
    assert_eq!(sent["subjects"], json!(["muster.work.do.node.each-node-that-is-found"]));
    assert_eq!(sent["allowed_by"], "muster.*.> (from muster.{{tag(agent)}}.> in the scope)");
    assert_eq!(sent["body"]["data"]["what"], "x");
    assert_eq!(document["caller"]["role"], "caller");
    let signed = format!("{}{}", "6d75737465722e726571756573742e763100", "7b");
    assert!(sent["signed_hex"].as_str().unwrap().starts_with(&signed), "{sent}");
    assert!(!document.to_string().contains("s3cret"), "{document}");

    let named = describe_output(
        &world.desk.run(&["explain", "work", "do", "what=x", "-I", "n1", "-v"]).await,
    );
    assert!(named.contains("muster.work.do.node.n1"), "{named}");
    assert!(!named.contains("Discovery request"), "{named}");
    for stage in ["decode", "verify", "authorise", "journal", "reply"] {
        assert!(named.contains(&format!("\n   {stage}")), "{stage}: {named}");
    }
    // Who may ask for nothing but `rpcutil` is told what the broker would do.
    let user =
        world.organisation.user(muster_wire::token::UserRole::Caller, "eve", &["agent:rpcutil"]);
    let narrow = RpcCommand::new(&world.server, &world.organisation, &user, "");
    narrow.add_schema("work", &schema());
    let (document, _) = narrow.run_json(&["explain", "work", "do", "what=x", "-I", "n1"]).await;
    assert!(document["requests"][0]["allowed_by"].is_null());
    assert_eq!(world.gate.total.load(Ordering::Relaxed), 0);
}
