//! Actions that panic, hang or return too much data affect one reply each, in the complete daemon.

use std::time::Duration;

use muster_api::{ActionError, Agent, AgentAction, CallContext};
use muster_client::{CallTarget, RpcCall};
use muster_host::CallLimits;
use muster_wire::identity::Identity;
use muster_wire::status::{ReplyReason, ReplyStatus};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::node_fixture::NodeFixture;

#[derive(Deserialize)]
struct EmptyInput {}

#[derive(Serialize)]
struct TextOutput {
    said: String,
}

struct PanicAction;
struct HangAction;
struct FloodAction;

impl AgentAction for PanicAction {
    const NAME: &'static str = "panic";
    type Input = EmptyInput;
    type Output = TextOutput;
    async fn run(&self, _: &CallContext, _: EmptyInput) -> Result<TextOutput, ActionError> {
        panic!("required by the test")
    }
}

impl AgentAction for HangAction {
    const NAME: &'static str = "hang";
    type Input = EmptyInput;
    type Output = TextOutput;
    async fn run(&self, cx: &CallContext, _: EmptyInput) -> Result<TextOutput, ActionError> {
        // Blocking work that does not check for cancellation, like a hanging file system.
        let result = cx
            .run_blocking(|cancel| {
                while !cancel.is_cancelled() {
                    std::thread::yield_now();
                }
            })
            .await;
        result.map(|()| TextOutput { said: "awake".to_owned() })
    }
}

impl AgentAction for FloodAction {
    const NAME: &'static str = "flood";
    type Input = EmptyInput;
    type Output = TextOutput;
    async fn run(&self, _: &CallContext, _: EmptyInput) -> Result<TextOutput, ActionError> {
        Ok(TextOutput { said: "x".repeat(8 * 1024 * 1024) })
    }
}

fn build_agent() -> Agent {
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
        .with_action(PanicAction)
        .with_action(HangAction)
        .with_action(FloodAction)
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
    assert!(matches!(hung.reason, Some(ReplyReason::Timeout { after_ms: 400.. })), "{hung:?}");
    assert!(stats.missing.is_empty());

    assert_eq!(
        fixture.caller.call_action(node, "rpcutil", "ping", json!({})).await.reply.statuscode,
        ReplyStatus::Ok
    );
    assert_eq!(fixture.node.core.snapshot_counters().replies, 5);
}
