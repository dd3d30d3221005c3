//! An action that panics, one that hangs and one that floods cost one reply each, through the whole daemon.

use std::time::Duration;

use muster_api::{ActionError, Agent, AgentAction, CallContext};
use muster_client::{CallTarget, RpcCall};
use muster_host::CallLimits;
use muster_wire::identity::Identity;
use muster_wire::status::{ReplyReason, ReplyStatus};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::ask::NodeFixture;

#[derive(Deserialize)]
struct Nothing {}

#[derive(Serialize)]
struct Said {
    said: String,
}

struct Panic;
struct Hang;
struct Flood;

impl AgentAction for Panic {
    const NAME: &'static str = "panic";
    type Input = Nothing;
    type Output = Said;
    async fn run(&self, _: &CallContext, _: Nothing) -> Result<Said, ActionError> {
        panic!("as the test wants")
    }
}

impl AgentAction for Hang {
    const NAME: &'static str = "hang";
    type Input = Nothing;
    type Output = Said;
    async fn run(&self, cx: &CallContext, _: Nothing) -> Result<Said, ActionError> {
        // Blocking work that never looks at its flag, as a stuck file system.
        let stuck = cx
            .run_blocking(|cancel| {
                while !cancel.is_cancelled() {
                    std::thread::yield_now();
                }
            })
            .await;
        stuck.map(|()| Said { said: "awake".to_owned() })
    }
}

impl AgentAction for Flood {
    const NAME: &'static str = "flood";
    type Input = Nothing;
    type Output = Said;
    async fn run(&self, _: &CallContext, _: Nothing) -> Result<Said, ActionError> {
        Ok(Said { said: "x".repeat(8 * 1024 * 1024) })
    }
}

fn agent() -> Agent {
    let action = |name: &str| {
        json!({"action": name, "description": "d", "display": "always", "input": {},
               "output": {"said": {"description": "d", "display_as": "Said", "type": "string"}}})
    };
    let ddl = json!({
        "metadata": {"name": "trouble", "description": "d", "author": "a", "license": "l",
                     "version": "1.0.0", "url": "u", "timeout": 2},
        "actions": [action("panic"), action("hang"), action("flood")],
    });
    Agent::builder(&ddl.to_string())
        .unwrap()
        .with_action(Panic)
        .with_action(Hang)
        .with_action(Flood)
        .build()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_costs_exactly_one_reply() {
    let fixture = NodeFixture::new(|setup| {
        setup.agents = vec![agent()];
        setup.limits = CallLimits { concurrency: 2, queue: 2, ..CallLimits::default() };
    })
    .await;
    let node = "node1.example.net";
    let panicked = fixture.caller.call_action(node, "trouble", "panic", json!({})).await.reply;
    assert_eq!(
        (panicked.statuscode, panicked.reason),
        (ReplyStatus::Other, Some(ReplyReason::Broken))
    );
    let flooded = fixture.caller.call_action(node, "trouble", "flood", json!({})).await.reply;
    assert!(
        matches!(flooded.reason, Some(ReplyReason::Oversized { bytes: 8_000_000.. })),
        "{flooded:?}"
    );

    let mut call =
        RpcCall::new("trouble", "hang", CallTarget::Nodes([Identity::parse(node).unwrap()].into()))
            .unwrap();
    call.timeout = Some(Duration::from_millis(400));
    let asking = fixture.caller.call(call);
    let meanwhile = fixture.caller.call_action(node, "rpcutil", "ping", json!({}));
    let ((answers, stats), ping) = tokio::join!(asking, meanwhile);
    assert_eq!(ping.reply.statuscode, ReplyStatus::Ok);
    let hung = &answers[&Identity::parse(node).unwrap()].reply;
    assert!(matches!(hung.reason, Some(ReplyReason::Timeout { after_ms: 400.. })), "{hung:?}");
    assert!(stats.missing.is_empty());

    assert_eq!(
        fixture.caller.call_action(node, "rpcutil", "ping", json!({})).await.reply.statuscode,
        ReplyStatus::Ok
    );
    assert_eq!(fixture.node.core.snapshot_counters().replies, 5);
}
