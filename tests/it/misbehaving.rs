//! An action that panics, one that hangs and one that floods cost one reply each, through the whole daemon.

use std::time::Duration;

use muster_api::{ActionError, Agent, CallContext, EmptyInput, NoState};
use muster_client::{CallTarget, RpcCall};
use muster_host::CallLimits;
use muster_wire::identity::Identity;
use muster_wire::status::{ReplyReason, ReplyStatus};
use serde::Serialize;
use serde_json::json;

use crate::ask::World;

#[derive(Serialize)]
struct Said {
    said: String,
}

async fn panic_now(_: NoState, _: CallContext, _: EmptyInput) -> Result<Said, ActionError> {
    tokio::task::yield_now().await;
    panic!("as the test wants")
}

/// Blocking work that never looks at its flag, as a stuck file system.
async fn hang(_: NoState, cx: CallContext, _: EmptyInput) -> Result<Said, ActionError> {
    let stuck = cx
        .run_blocking(|cancel| {
            while !cancel.is_cancelled() {
                std::thread::yield_now();
            }
        })
        .await;
    stuck.map(|()| Said { said: "awake".to_owned() })
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
        .action("panic", &NoState, panic_now)
        .action("hang", &NoState, hang)
        .immediate_action("flood", &NoState, |_, _, _: EmptyInput| {
            let said = "x".repeat(8 * 1024 * 1024);
            Said { said }
        })
        .build()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_costs_exactly_one_reply() {
    let world = World::new(|blueprint| {
        blueprint.agents = vec![agent()];
        blueprint.limits = CallLimits { concurrency: 2, queue: 2, ..CallLimits::default() };
    })
    .await;
    let node = "node1.example.net";
    let panicked = world.caller.ask(node, "trouble", "panic", json!({})).await.reply;
    assert_eq!(
        (panicked.statuscode, panicked.reason),
        (ReplyStatus::Other, Some(ReplyReason::Broken))
    );
    let flooded = world.caller.ask(node, "trouble", "flood", json!({})).await.reply;
    assert!(
        matches!(flooded.reason, Some(ReplyReason::Oversized { bytes: 8_000_000.. })),
        "{flooded:?}"
    );

    let mut call =
        RpcCall::new("trouble", "hang", CallTarget::Nodes([Identity::parse(node).unwrap()].into()))
            .unwrap();
    call.timeout = Some(Duration::from_millis(400));
    let asking = world.caller.call(call);
    let meanwhile = world.caller.ask(node, "rpcutil", "ping", json!({}));
    let ((answers, stats), ping) = tokio::join!(asking, meanwhile);
    assert_eq!(ping.reply.statuscode, ReplyStatus::Ok);
    let hung = &answers[&Identity::parse(node).unwrap()].reply;
    assert!(matches!(hung.reason, Some(ReplyReason::Timeout { after_ms: 400.. })), "{hung:?}");
    assert!(stats.missing.is_empty());

    assert_eq!(
        world.caller.ask(node, "rpcutil", "ping", json!({})).await.reply.statuscode,
        ReplyStatus::Ok
    );
    assert_eq!(world.node.core.snapshot_counters().replies, 5);
}
