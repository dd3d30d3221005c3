//! How long an action may take: what its DDL says of it, on the node and at the caller's.

use std::time::Duration;

use muster_api::{ActionError, Agent, AgentAction, CallContext};
use muster_tests::command::RpcCommand;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::ask::NodeFixture;

/// More than the agent's two seconds, and the two more that a caller waits for answers on their way.
const LONGER: Duration = Duration::from_millis(4500);

#[derive(Deserialize)]
struct Nothing {}

#[derive(Serialize)]
struct Left {
    seconds: u64,
}

/// Tells how much time it was given.
struct Short;
struct Long;
struct Plain;
/// Takes longer than its agent's time and what a caller waits besides.
struct Slow;

/// The time until the deadline; what is lost on the way is rounded up again.
fn left(cx: &CallContext) -> Left {
    let left = cx.deadline.saturating_duration_since(Instant::now());
    Left { seconds: left.as_secs() + 1 }
}

macro_rules! tells_its_time {
    ($action:ty, $name:literal) => {
        impl AgentAction for $action {
            const NAME: &'static str = $name;
            type Input = Nothing;
            type Output = Left;
            async fn run(&self, cx: &CallContext, _: Nothing) -> Result<Left, ActionError> {
                Ok(left(cx))
            }
        }
    };
}

tells_its_time!(Short, "short");
tells_its_time!(Long, "long");
tells_its_time!(Plain, "plain");

impl AgentAction for Slow {
    const NAME: &'static str = "slow";
    type Input = Nothing;
    type Output = Left;
    async fn run(&self, cx: &CallContext, _: Nothing) -> Result<Left, ActionError> {
        // Nobody takes it back before: it is its own time that must count, and no shorter one.
        let _ = tokio::time::timeout(LONGER, cx.cancel.cancelled()).await;
        Ok(left(cx))
    }
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
        .with_action(Short)
        .with_action(Long)
        .with_action(Slow)
        .with_action(Plain)
        .build()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_actions_own_timeout_counts_on_the_node_and_at_the_callers() {
    let fixture = NodeFixture::new(|node| node.agents.push(agent())).await;
    let rpc = RpcCommand::new(
        &fixture.server,
        &fixture.organisation,
        &fixture.organisation.caller("anna"),
        "",
    );
    rpc.add_schema("clock", &ddl());
    let seconds = async |more: &[&str]| {
        let words = [&["clock"], more, &["-I", "node1.example.net"]].concat();
        let (document, code) = rpc.run_json(&words).await;
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
