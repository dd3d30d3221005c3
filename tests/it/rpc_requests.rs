//! Requests by the real `rpc`: without replies, at a terminal, with traces, and explained instead of sent.

use std::io::Read as _;
use std::sync::atomic::Ordering;

use muster_tests::await_state;
use muster_tests::command::{RpcCommand, describe_output};
use nix::pty::OpenptyResult;
use serde_json::{Value, json};

use crate::reply_delivery::STAGES;
use crate::worker_fixture::{WorkerFixture, schema};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn request_without_replies_returns_after_sending() {
    let fixture = WorkerFixture::new(2, "").await;
    let output = fixture.rpc.run(&["do", "work", "what=x", "--no-results"]).await;
    let stdout = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(stdout.starts_with("Request sent with id: 0"), "{}", describe_output(&output));
    await_state("both nodes have run it", || fixture.gate.total.load(Ordering::Relaxed) == 2).await;
    assert_eq!(fixture.only_job().await["job"]["state"], "unattended");
}

/// A request without replies was once sent to all nodes, regardless of its filter.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn request_without_replies_keeps_its_filter() {
    let fixture = WorkerFixture::new(3, "").await;
    for filter in ["-F number=2", "-F number=4", "-S number=2"] {
        let arguments: Vec<&str> =
            ["do", "work", "what=x", "--nr"].into_iter().chain(filter.split(' ')).collect();
        let output = fixture.rpc.run(&arguments).await;
        let expected = i32::from(filter.ends_with('4'));
        assert_eq!(output.status.code(), Some(expected), "{}", describe_output(&output));
    }
    // Nodes process requests in order: once all have replied to this request, they have processed the earlier ones too.
    let (_, code) = fixture.rpc.run_json(&["do", "work", "what=x"]).await;
    assert_eq!(code, 0);
    // Each command adds one discovery and one request; the second node gets two additional ones.
    let passed: Vec<u64> =
        fixture.nodes.iter().map(|node| node.core.snapshot_counters().passed).collect();
    assert_eq!(passed, [2, 6, 2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_collectives_and_template_fields_are_refused_before_anything_is_sent() {
    let fixture = WorkerFixture::new(1, "").await;
    let before = fixture.nodes[0].core.snapshot_counters().passed;
    for (arguments, expected) in [
        (
            &["find", "-T", "nosuch"][..],
            "collective `nosuch` does not exist for you; yours is muster",
        ),
        (
            &["do", "work", "what=x", "--template", "{{ sender }} {{ data.dnoe }}"],
            "unknown field `data.dnoe`; did you mean `data.done`?",
        ),
        (&["find", "--template", "{{ node.name }}"], "unknown field `node.name`"),
    ] {
        let output = fixture.rpc.run(arguments).await;
        let text = describe_output(&output);
        assert_eq!(output.status.code(), Some(4), "{text}");
        assert!(text.contains(expected), "{text}");
    }
    assert_eq!(fixture.nodes[0].core.snapshot_counters().passed, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_are_sorted_as_people_count_and_facts_are_listed() {
    let fixture = WorkerFixture::new(10, "").await;
    let names: Vec<String> = (1..=10).map(|n| format!("n{n}\n")).collect();
    let output = fixture.rpc.run(&["find"]).await;
    assert_eq!(String::from_utf8_lossy(&output.stdout), names.concat());
    let (replies, _) = fixture.rpc.run_json(&["do", "rpcutil", "ping", "--sort"]).await;
    let senders: Vec<String> = replies["replies"]
        .as_array()
        .unwrap()
        .iter()
        .map(|reply| format!("{}\n", reply["sender"].as_str().unwrap()))
        .collect();
    assert_eq!(senders, names);
    let (facts, exit) = fixture.rpc.run_json(&["facts"]).await;
    let number = json!({"name": "number", "nodes": 10});
    assert_eq!((exit, &facts["nodes"]), (0, &json!(10)), "{facts}");
    assert!(facts["facts"].as_array().unwrap().contains(&number), "{facts}");
    let output = fixture.rpc.run(&["facts"]).await;
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("number"),
        "{}",
        describe_output(&output)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn does_not_ask_for_confirmation_without_a_terminal() {
    let fixture = WorkerFixture::new(2, "confirm_above = 0").await;
    // Without a terminal there is no confirmation, unless the configuration requires it.
    assert_eq!(fixture.rpc.run(&["do", "work", "what=x"]).await.status.code(), Some(0));
    let strict = RpcCommand::new(
        &fixture.server,
        &fixture.organisation,
        &fixture.organisation.caller("amy"),
        "confirm = \"always\"",
    );
    strict.add_schema("work", &schema());
    let before = fixture.gate.total.load(Ordering::Relaxed);
    let refused = strict.run(&["do", "work", "what=x"]).await;
    assert_eq!(refused.status.code(), Some(4), "{}", describe_output(&refused));
    assert!(describe_output(&refused).contains("--yes"), "{}", describe_output(&refused));
    assert_eq!(fixture.gate.total.load(Ordering::Relaxed), before);
    assert_eq!(strict.run(&["do", "work", "what=x", "--yes"]).await.status.code(), Some(0));
    assert_eq!(strict.run(&["do", "rpcutil", "ping"]).await.status.code(), Some(0));
}

/// Everything that was written to a terminal whose other users have ended. The kernel passes it on in parts, and reports an error after the last one.
fn read_terminal(terminal: OpenptyResult) -> String {
    drop(terminal.slave);
    let mut shown = Vec::new();
    let _ = std::fs::File::from(terminal.master).read_to_end(&mut shown);
    String::from_utf8_lossy(&shown).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changing_many_nodes_at_a_terminal_needs_confirmation() {
    let fixture = WorkerFixture::new(2, "confirm_above = 1").await;
    for (answer, exit, done) in [("n\n", 1, 0), ("\n", 1, 0), ("y\n", 0, 2)] {
        let terminal = nix::pty::openpty(None, None).unwrap();
        let slave = || std::process::Stdio::from(terminal.slave.try_clone().unwrap());
        let request = ["do", "work", "what=x", "-F", "number=/[12]/", "--np"];
        // The answer decides whether it is sent.
        let secret: &[&str] = if done == 0 { &["token=s3cret"] } else { &[] };
        let mut command = fixture.rpc.prepare_command(&[&request[..], secret].concat());
        let child = command.stdin(slave()).stderr(slave()).spawn().unwrap();
        nix::unistd::write(&terminal.master, answer.as_bytes()).unwrap();
        let output = child.wait_with_output().await.unwrap();
        assert_eq!(output.status.code(), Some(exit), "{answer:?}: {}", describe_output(&output));
        drop(command);
        let shown = read_terminal(terminal);
        for part in ["fleet:", "(collective muster)", "filter: nodes", "number", "what=x"] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert!(!shown.contains("s3cret"), "{shown}");
        assert_eq!(shown.contains("token=[redacted]"), done == 0, "{shown}");
        assert_eq!(fixture.gate.total.load(Ordering::Relaxed), done, "{answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a8_1_trace_shows_every_stage_of_client_and_node() {
    let fixture = WorkerFixture::new(1, "").await;
    let (document, exit) = fixture.rpc.run_json(&["do", "work", "what=x", "--trace"]).await;
    assert_eq!(exit, 0);
    let stages = document["replies"][0]["trace"]["stages"].as_array().unwrap();
    let names: Vec<&str> = stages.iter().map(|stage| stage["stage"].as_str().unwrap()).collect();
    assert_eq!(names, STAGES);
    let client_trace = &document["request_stats"]["trace"];
    for stage in ["discover_us", "sign_us", "publish_us"] {
        assert!(client_trace[stage].as_u64().is_some(), "{client_trace}");
    }
    assert!(client_trace["traceparent"].as_str().unwrap().starts_with("00-"));

    let text = describe_output(&fixture.rpc.run(&["do", "work", "what=x", "--trace"]).await);
    for stage in
        STAGES.iter().chain(&["discover", "sign", "publish", "network", "verify here", "total"])
    {
        assert!(text.contains(&format!("\n   {stage} ")), "{stage}: {text}");
    }
    let pinged = describe_output(&fixture.rpc.run(&["ping", "--trace"]).await);
    assert!(pinged.contains("\n   authorise ") && pinged.contains("\n   network "), "{pinged}");

    // A trace context from the environment is used.
    let trace_context = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let mut command = fixture.rpc.prepare_command(&["do", "work", "what=x", "--trace", "-j"]);
    let output = command.env("TRACEPARENT", trace_context).output().await.unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["request_stats"]["trace"]["traceparent"], trace_context);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_shows_the_request_without_sending_it() {
    let fixture = WorkerFixture::new(1, "").await;
    let request = ["explain", "work", "do", "what=x", "token=s3cret", "-F", "number=1"];
    let (document, exit) = fixture.rpc.run_json(&request).await;
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
        &fixture.rpc.run(&["explain", "do", "work", "do", "what=x", "-I", "n1", "-v"]).await,
    );
    assert!(named.contains("muster.work.do.node.n1"), "{named}");
    assert!(!named.contains("Discovery request"), "{named}");
    for stage in ["decode", "verify", "authorise", "journal", "reply"] {
        assert!(named.contains(&format!("\n   {stage}")), "{stage}: {named}");
    }
    // A caller who is limited to `rpcutil` sees that the broker would refuse the request.
    let user =
        fixture.organisation.user(muster_wire::token::UserRole::Caller, "eve", &["agent:rpcutil"]);
    let restricted = RpcCommand::new(&fixture.server, &fixture.organisation, &user, "");
    restricted.add_schema("work", &schema());
    let (document, _) = restricted.run_json(&["explain", "work", "do", "what=x", "-I", "n1"]).await;
    assert!(document["requests"][0]["allowed_by"].is_null());
    assert_eq!(fixture.gate.total.load(Ordering::Relaxed), 0);
}

/// The broker reports a refusal on the connection, and sends no reply.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn action_that_is_not_permitted_fails_at_once() {
    let fixture = WorkerFixture::new(1, "").await;
    let organisation = &fixture.organisation;
    let tags = ["agent:rpcutil", "agent:work.status"];
    // Own tags are read before the request is sent; for a service, only the broker knows.
    for (user, expected) in [
        (
            organisation.user(muster_wire::token::UserRole::Caller, "eve", &tags),
            "your credentials do not permit `work do`; they permit rpcutil, work.status",
        ),
        (
            organisation.service(muster_wire::token::ServiceRight::Directory, "directory1"),
            "the broker refuses `muster.",
        ),
    ] {
        let rpc = RpcCommand::new(&fixture.server, organisation, &user, "");
        rpc.add_schema("work", &schema());
        for target in [&["-I", "n1"][..], &["-W", "number=1"]] {
            let output = rpc.run(&[&["do", "work", "what=x", "--yes"], target].concat()).await;
            let text = describe_output(&output);
            assert_eq!(output.status.code(), Some(1), "{text}");
            assert!(text.contains(expected) && !text.contains("No response"), "{text}");
        }
    }
    assert_eq!(fixture.gate.total.load(Ordering::Relaxed), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unusable_ddls_are_warnings_for_requests_that_do_not_need_them() {
    let fixture = WorkerFixture::new(1, "").await;
    let rpc = &fixture.rpc;
    std::fs::create_dir_all(rpc.path("ddl/data")).unwrap();
    rpc.write("ddl/data/disk.json", "{\"metadata\": {\"name\": 7}}");
    rpc.write("ddl/moon.json", "[");
    for arguments in [&["do", "work", "what=x"][..], &["find", "-S", "number=1"]] {
        let output = rpc.run(arguments).await;
        let stderr = String::from_utf8(output.stderr.clone()).unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", describe_output(&output));
        let data = format!("{} is not a valid DDL", rpc.path("ddl/data/disk.json").display());
        assert!(stderr.contains(&data) && stderr.contains("invalid type: integer"), "{stderr}");
    }
    let needed = rpc.run(&["do", "moon", "phase"]).await;
    let told = describe_output(&needed);
    assert_eq!(needed.status.code(), Some(1), "{told}");
    assert!(told.contains("the DDL of the agent `moon` cannot be used"), "{told}");
    assert!(told.contains(&rpc.path("ddl/moon.json").display().to_string()), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_match_nothing_are_compared_with_seen_ones() {
    let fixture = WorkerFixture::new(2, "").await;
    let rpc = &fixture.rpc;
    let inventory = rpc.run(&["inventory", "n1"]).await;
    assert_eq!(inventory.status.code(), Some(0), "{}", describe_output(&inventory));
    assert_eq!(rpc.run(&["find"]).await.status.code(), Some(0));
    for (arguments, expected) in [
        (
            &["find", "-F", "numbr=1"][..],
            "no node has the fact \"numbr\"; did you mean \"number\"?",
        ),
        (&["do", "work", "what=x", "-F", "nummber=1"], "did you mean \"number\"?"),
        (&["ping", "-A", "wrok"], "no node has the agent \"wrok\"; did you mean \"work\"?"),
        (&["do", "rpcutil", "ping", "-I", "n22"], "has the name \"n22\"; did you mean \"n2\"?"),
    ] {
        let output = rpc.run(arguments).await;
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
    }
    let completed = rpc.run(&["complete", "fish", "--", "rpc", "find", "-F", "num"]).await;
    assert_eq!(String::from_utf8_lossy(&completed.stdout), "number=\t\n");
}
