//! The timeout of an action, from its DDL, on the node and in the caller's command.

use std::time::Duration;

use muster_api::{ActionError, Agent, CallContext, EmptyInput, NoState};
use muster_tests::command::RpcCommand;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::node_fixture::NodeFixture;

/// Longer than the agent's timeout of 2 s plus the 2 s that a caller waits additionally for replies.
const SLOW_DURATION: Duration = Duration::from_millis(4500);

#[derive(Serialize)]
struct RemainingTime {
    seconds: u64,
}

/// The time until the deadline, rounded up to whole seconds.
fn remaining_time(cx: &CallContext) -> RemainingTime {
    let remaining = cx.deadline.saturating_duration_since(Instant::now());
    RemainingTime { seconds: remaining.as_secs() + 1 }
}

fn ddl() -> Value {
    let action = |name: &str, timeout: Option<u64>| {
        let seconds = json!({"description": "d", "display_as": "Seconds", "type": "integer"});
        json!({"action": name, "description": "d", "display": "always", "read_only": true, "timeout": timeout,
               "input": {}, "output": {"seconds": seconds}})
    };
    let metadata = json!({"name": "clock", "description": "d", "author": "a", "license": "l", "version": "1.0.0", "url": "u",
                          "timeout": 2});
    let actions = [
        action("short", Some(40)),
        action("long", Some(4000)),
        action("slow", Some(60)),
        action("plain", None),
    ];
    json!({"metadata": metadata, "actions": actions})
}

/// Takes longer than the agent's timeout and the additional wait of a caller.
async fn run_slowly(
    _: NoState,
    cx: CallContext,
    _: EmptyInput,
) -> Result<RemainingTime, ActionError> {
    // Ends early only if it is cancelled, which would mean that a shorter timeout was applied.
    let _ = tokio::time::timeout(SLOW_DURATION, cx.cancel.cancelled()).await;
    Ok(remaining_time(&cx))
}

fn build_agent() -> Agent {
    let reply = |_: NoState, cx: CallContext, _: EmptyInput| async move { Ok(remaining_time(&cx)) };
    Agent::builder(&ddl().to_string())
        .unwrap()
        .action("short", &NoState, reply)
        .action("long", &NoState, reply)
        .action("plain", &NoState, reply)
        .action("slow", &NoState, run_slowly)
        .build()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn action_timeout_applies_on_node_and_caller() {
    let fixture = NodeFixture::new(|node| node.agents.push(build_agent())).await;
    let rpc = RpcCommand::new(
        &fixture.server,
        &fixture.organisation,
        &fixture.organisation.caller("anna"),
        "",
    );
    rpc.add_schema("clock", &ddl());
    let seconds = async |more: &[&str]| {
        let arguments = [&["clock"], more, &["-I", "node1.example.net"]].concat();
        let (document, code) = rpc.run_json(&arguments).await;
        assert_eq!(code, 0, "{document:#}");
        document["replies"][0]["data"]["seconds"].as_u64().unwrap()
    };
    // A loaded machine may need some time before the action reads its deadline; the ranges are far apart.
    let short = seconds(&["short"]).await;
    assert!((20..=40).contains(&short), "{short}");
    let long = seconds(&["long"]).await;
    assert!((3900..=4000).contains(&long), "{long}");
    assert!(seconds(&["long", "-t", "90"]).await <= 90, "-t can reduce the timeout");
    assert!(seconds(&["short", "-t", "90"]).await <= 40, "-t cannot extend the timeout");
    // With the agent's timeout of 2 s, the caller would have given up before.
    assert!(seconds(&["slow"]).await > 2);
    assert!(seconds(&["plain"]).await <= 2, "the agent's timeout is the default");
}

/// `-t` is the time that the action gets: a program is stopped at that time, not before, and its output still arrives.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn action_gets_the_whole_time_of_the_request() {
    let jobs = tempfile::tempdir().unwrap();
    let shell = muster_agents::shell::build_agent(
        muster_agents::shell::Options::default(),
        jobs.path().join("jobs"),
    )
    .unwrap();
    let fixture = NodeFixture::new(|node| node.agents.push(shell)).await;
    let caller = fixture.organisation.caller("anna");
    let rpc = RpcCommand::new(&fixture.server, &fixture.organisation, &caller, "");
    let run = async |script: &str, seconds: &str| {
        let script = format!("script={script}");
        let arguments = ["do", "shell", "run", &script, "-t", seconds, "-I", "node1.example.net"];
        let (document, exit) = rpc.run_json(&arguments).await;
        (document["replies"][0].clone(), exit)
    };
    let (reply, exit) = run("sleep 1.5; echo done", "2").await;
    assert_eq!((exit, reply["data"]["stdout"].as_str()), (0, Some("done\n")), "{reply}");
    let (reply, exit) = run("echo begun; sleep 60", "4").await;
    assert_eq!((exit, reply["data"]["stdout"].as_str()), (2, Some("begun\n")), "{reply}");
    let after = reply["reason"]["after_ms"].as_u64().unwrap_or_default();
    // The time on the way from the acceptance of the request to the program is part of the limit.
    assert!((1..=4000).contains(&after), "{reply}");
}
