//! Actions that panic, hang or return too much data affect one reply each, in the complete daemon.

use std::time::Duration;

use muster_api::{ActionError, Agent, CallContext, EmptyInput, NoState};
use muster_calls::{CallTarget, RpcCall};
use muster_host::CallLimits;
use muster_wire::identity::Identity;
use muster_wire::status::{ReplyReason, ReplyStatus};
use serde::Serialize;
use serde_json::json;

use crate::node_fixture::NodeFixture;

#[derive(Serialize)]
struct TextOutput {
    said: String,
}

fn panic_for_test() -> Result<TextOutput, ActionError> {
    panic!("required by the test")
}

/// Blocks a thread without checking for cancellation, like a hanging file system.
async fn hang(_: NoState, cx: CallContext, _: EmptyInput) -> Result<TextOutput, ActionError> {
    let result = cx
        .run_blocking(|cancel| {
            while !cancel.is_cancelled() {
                std::thread::yield_now();
            }
        })
        .await;
    result.map(|()| TextOutput { said: "awake".to_owned() })
}

fn build_agent() -> Agent {
    let action = |name: &str| {
        json!({"action": name, "description": "d", "display": "always", "input": {},
               "output": {"said": {"description": "d", "display_as": "Said", "type": "string"}}})
    };
    let ddl = json!({
        "metadata": {"name": "trouble", "description": "d", "author": "a", "license": "l",
                     "version": "1.0.0", "url": "u", "timeout": 60},
        "actions": [action("panic"), action("hang"), action("flood")],
    });
    Agent::builder(&ddl.to_string())
        .unwrap()
        .action("panic", &NoState, |_, _, _: EmptyInput| async { panic_for_test() })
        .action("hang", &NoState, hang)
        .action("flood", &NoState, |_, _, _: EmptyInput| async {
            Ok(TextOutput { said: "x".repeat(8 * 1024 * 1024) })
        })
        .build()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_misbehaving_action_affects_one_reply() {
    let fixture = NodeFixture::new(|setup| {
        setup.agents = vec![build_agent()];
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
    let hanging_call = fixture.caller.call(call);
    let ping_call = fixture.caller.call_action(node, "rpcutil", "ping", json!({}));
    let ((answers, stats), ping) = tokio::join!(hanging_call, ping_call);
    assert_eq!(ping.reply.statuscode, ReplyStatus::Ok);
    let hung = &answers[&Identity::parse(node).unwrap()].reply;
    // The time on the way to the action is part of the limit.
    assert!(matches!(hung.reason, Some(ReplyReason::Timeout { after_ms: 1..=400 })), "{hung:?}");
    assert!(stats.missing.is_empty());

    assert_eq!(
        fixture.caller.call_action(node, "rpcutil", "ping", json!({})).await.reply.statuscode,
        ReplyStatus::Ok
    );
    assert_eq!(fixture.node.core.snapshot_counters().replies, 5);
}
