//! Tests that a plugin that panics, hangs, exceeds a limit or violates its DDL affects only one call.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may end by panic")]

use std::sync::Arc;
use std::time::Duration;

use muster_api::testing::TestNode;
use muster_api::{
    ActionError, ActionFuture, ActionHandler, Agent, CallContext, EmptyInput, NoState,
};
use muster_host::{ActionCall, AgentRegistry, CallLimits, CallOutcome};
use muster_system::fake::FakeSystem;
use muster_wire::status::{ReplyReason, ReplyStatus};
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;

#[derive(Serialize)]
struct Said {
    said: Value,
}

async fn say(said: Value, _: CallContext, _: EmptyInput) -> Result<Said, ActionError> {
    tokio::task::yield_now().await;
    Ok(Said { said })
}

async fn panic_now(_: NoState, _: CallContext, _: EmptyInput) -> Result<Said, ActionError> {
    tokio::task::yield_now().await;
    panic!("intended by the test")
}

async fn hang(wake: Arc<Notify>, _: CallContext, _: EmptyInput) -> Result<Said, ActionError> {
    wake.notified().await;
    Ok(Said { said: json!("awake") })
}

fn know(_: &NoState, _: &CallContext, _: EmptyInput) -> Said {
    Said { said: json!("known") }
}

fn stumble(_: &NoState, _: &CallContext, _: EmptyInput) -> Said {
    panic!("intended by the test")
}

/// Declares that it answers immediately, but never completes.
struct Promise;

impl ActionHandler for Promise {
    fn call<'a>(&'a self, _: &'a CallContext, _: Map<String, Value>) -> ActionFuture<'a> {
        Box::pin(std::future::pending())
    }

    fn answers_immediately(&self) -> bool {
        true
    }
}

fn ddl() -> String {
    let action = |name: &str| {
        json!({"action": name, "description": "d", "display": "always", "input": {},
               "output": {"said": {"description": "d", "display_as": "Said", "type": "string"}}})
    };
    let actions = ["speak", "panic", "hang", "know", "stumble", "promise"].map(action);
    json!({
        "metadata": {"name": "parrot", "description": "d", "author": "a", "license": "l",
                     "version": "1.0.0", "url": "u", "timeout": 5},
        "actions": actions,
    })
    .to_string()
}

fn registry(said: &Value, wake: &Arc<Notify>, limits: CallLimits) -> AgentRegistry {
    let agent = Agent::builder(&ddl())
        .unwrap()
        .action("speak", said, say)
        .action("panic", &NoState, panic_now)
        .action("hang", wake, hang)
        .immediate_action("know", &NoState, know)
        .immediate_action("stumble", &NoState, stumble)
        .with_handler("promise", Arc::new(Promise))
        .build()
        .unwrap();
    let mut registry = AgentRegistry::new();
    registry.add(agent, limits).unwrap();
    registry
}

fn call(agent: &str, action: &str, within: Duration) -> ActionCall {
    let node = TestNode::named("node1").unwrap();
    let mut context = node.context(agent, action, Arc::new(FakeSystem::new())).unwrap();
    context.deadline = Instant::now() + within;
    ActionCall { context, input: Map::new() }
}

async fn speak(said: Value, limits: CallLimits) -> CallOutcome {
    let registry = registry(&said, &Arc::default(), limits);
    registry.dispatch_call(call("parrot", "speak", Duration::from_secs(5))).await
}

#[tokio::test]
async fn valid_output_is_returned() {
    let outcome = speak(json!("hello"), CallLimits::default()).await;
    assert_eq!((outcome.status, outcome.data["said"].clone()), (ReplyStatus::Ok, json!("hello")));
}

#[tokio::test]
async fn unknown_agents_and_actions_have_different_messages() {
    let registry = registry(&json!("x"), &Arc::default(), CallLimits::default());
    for (agent, action, message) in [
        ("ghost", "speak", "this node has no agent ghost"),
        ("parrot", "sing", "agent parrot has no action sing"),
    ] {
        let outcome = registry.dispatch_call(call(agent, action, Duration::from_secs(5))).await;
        assert_eq!(
            (outcome.status, outcome.message.as_str()),
            (ReplyStatus::UnknownAction, message)
        );
    }
}

#[tokio::test]
async fn panic_fails_one_call() {
    let registry = registry(&json!("x"), &Arc::default(), CallLimits::default());
    let outcome = registry.dispatch_call(call("parrot", "panic", Duration::from_secs(5))).await;
    assert_eq!((outcome.status, outcome.reason), (ReplyStatus::Other, Some(ReplyReason::Broken)));
    let next = registry.dispatch_call(call("parrot", "speak", Duration::from_secs(5))).await;
    assert_eq!(next.status, ReplyStatus::Ok);
}

#[tokio::test]
async fn hanging_call_ends_at_the_deadline_and_frees_its_slot() {
    let limits = CallLimits { concurrency: 1, queue: 0, ..CallLimits::default() };
    let registry = registry(&json!("x"), &Arc::default(), limits);
    let outcome = registry.dispatch_call(call("parrot", "hang", Duration::from_millis(50))).await;
    assert!(matches!(outcome.reason, Some(ReplyReason::Timeout { .. })), "{outcome:?}");
    tokio::task::yield_now().await;
    let next = registry.dispatch_call(call("parrot", "speak", Duration::from_secs(5))).await;
    assert_eq!(next.status, ReplyStatus::Ok, "{next:?}");
}

#[tokio::test]
async fn full_queue_returns_busy_and_serves_queued_calls() {
    let wake = Arc::new(Notify::new());
    let limits = CallLimits { concurrency: 1, queue: 1, ..CallLimits::default() };
    let registry = Arc::new(registry(&json!("x"), &wake, limits));
    let ask = |action: &'static str| {
        let registry = Arc::clone(&registry);
        tokio::spawn(async move {
            registry.dispatch_call(call("parrot", action, Duration::from_mins(1))).await
        })
    };
    let (running, waiting) = (ask("hang"), ask("speak"));
    tokio::task::yield_now().await;
    let refused = ask("speak").await.unwrap();
    assert!(matches!(refused.reason, Some(ReplyReason::Busy { .. })), "{refused:?}");
    wake.notify_one();
    assert_eq!(running.await.unwrap().status, ReplyStatus::Ok);
    assert_eq!(waiting.await.unwrap().status, ReplyStatus::Ok);
}

#[tokio::test]
async fn oversized_output_is_dropped_and_reported() {
    let limits = CallLimits { output_bytes: 1000, ..CallLimits::default() };
    let outcome = speak(json!("x".repeat(2000)), limits).await;
    assert!(
        matches!(outcome.reason, Some(ReplyReason::Oversized { bytes: 2000.. })),
        "{outcome:?}"
    );
    assert!(outcome.data.is_empty());
}

#[tokio::test]
async fn output_of_the_wrong_type_is_a_broken_plugin() {
    let outcome = speak(json!(7), CallLimits::default()).await;
    assert_eq!((outcome.status, outcome.reason), (ReplyStatus::Other, Some(ReplyReason::Broken)));
    assert!(outcome.message.contains("said"), "{}", outcome.message);
}

fn at_once(registry: &AgentRegistry, action: &str) -> Option<CallOutcome> {
    let call = call("parrot", action, Duration::from_secs(5));
    registry.answer_immediately(call).ok()
}

#[tokio::test]
async fn immediate_actions_are_answered_without_queueing() {
    let registry = registry(&json!("x"), &Arc::default(), CallLimits::default());
    let outcome = at_once(&registry, "know").unwrap();
    assert_eq!((outcome.status, outcome.data["said"].clone()), (ReplyStatus::Ok, json!("known")));
    assert!(at_once(&registry, "speak").is_none());
    assert!(at_once(&registry, "sing").is_none());
    let beside = call("parrot", "know", Duration::from_secs(5));
    assert_eq!(registry.dispatch_call(beside).await.status, ReplyStatus::Ok);
}

#[tokio::test]
async fn panic_or_pending_future_fails_one_immediate_call() {
    let limits = CallLimits { concurrency: 1, ..CallLimits::default() };
    let registry = registry(&json!("x"), &Arc::default(), limits);
    for action in ["stumble", "promise"] {
        let outcome = at_once(&registry, action).unwrap();
        assert_eq!(
            (outcome.status, outcome.reason),
            (ReplyStatus::Other, Some(ReplyReason::Broken))
        );
        assert_eq!(at_once(&registry, "know").unwrap().status, ReplyStatus::Ok);
    }
}

#[tokio::test]
async fn immediate_actions_wait_while_all_slots_are_in_use() {
    let wake = Arc::new(Notify::new());
    let limits = CallLimits { concurrency: 1, queue: 1, ..CallLimits::default() };
    let registry = Arc::new(registry(&json!("x"), &wake, limits));
    let busy = Arc::clone(&registry);
    let running = tokio::spawn(async move {
        busy.dispatch_call(call("parrot", "hang", Duration::from_mins(1))).await
    });
    tokio::task::yield_now().await;
    assert!(at_once(&registry, "know").is_none());
    wake.notify_one();
    assert_eq!(running.await.unwrap().status, ReplyStatus::Ok);
    assert!(at_once(&registry, "know").is_some());
}
