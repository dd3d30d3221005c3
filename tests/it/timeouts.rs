//! How long an action may take: what its DDL says of it, on the node and at the caller's.

use std::time::Duration;

use muster_api::{ActionError, Agent, CallContext, EmptyInput, NoState};
use muster_tests::command::Command;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::ask::World;

/// More than the agent's two seconds, and the two more that a caller waits for answers on their way.
const LONGER: Duration = Duration::from_millis(4500);

#[derive(Serialize)]
struct Left {
    seconds: u64,
}

/// The time until the deadline; what is lost on the way is rounded up again.
fn left(cx: &CallContext) -> Left {
    let left = cx.deadline.saturating_duration_since(Instant::now());
    Left { seconds: left.as_secs() + 1 }
}

/// Tells how much time it was given.
async fn tell_time(_: NoState, cx: CallContext, _: EmptyInput) -> Result<Left, ActionError> {
    tokio::task::yield_now().await;
    Ok(left(&cx))
}

/// Takes longer than its agent's time and what a caller waits besides.
async fn wait_long(_: NoState, cx: CallContext, _: EmptyInput) -> Result<Left, ActionError> {
    // Nobody takes it back before: it is its own time that must count, and no shorter one.
    let _ = tokio::time::timeout(LONGER, cx.cancel.cancelled()).await;
    Ok(left(&cx))
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

fn agent() -> Agent {
    Agent::builder(&ddl().to_string())
        .unwrap()
        .action("short", &NoState, tell_time)
        .action("long", &NoState, tell_time)
        .action("slow", &NoState, wait_long)
        .action("plain", &NoState, tell_time)
        .build()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_actions_own_timeout_counts_on_the_node_and_at_the_callers() {
    let world = World::new(|node| node.agents.push(agent())).await;
    let desk =
        Command::new(&world.server, &world.organisation, &world.organisation.caller("anna"), "");
    desk.add_schema("clock", &ddl());
    let seconds = async |more: &[&str]| {
        let words = [&["clock"], more, &["-I", "node1.example.net"]].concat();
        let (document, code) = desk.document(&words).await;
        assert_eq!(code, 0, "{document:#}");
        document["replies"][0]["data"]["seconds"].as_u64().unwrap()
    };
    // A loaded machine may take a while between giving the time and looking at it; the orders of magnitude stay apart.
    let short = seconds(&["short"]).await;
    assert!((20..=40).contains(&short), "{short}");
    let long = seconds(&["long"]).await;
    assert!((3900..=4000).contains(&long), "{long}");
    assert!(seconds(&["long", "-t", "90"]).await <= 90, "-t may be less");
    assert!(seconds(&["short", "-t", "90"]).await <= 40, "and never more");
    // Whoever waited for the agent's two seconds, and two more, would have gone by then.
    assert!(seconds(&["slow"]).await > 2);
    assert!(seconds(&["plain"]).await <= 2, "the agent's own, where there is no other");
}
