//! A plugin that panics, hangs, floods or lies costs one answer.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may end by panic")]

use std::sync::Arc;
use std::time::Duration;

use muster_api::testing::TestNode;
use muster_api::{Action, ActionError, Agent, Context};
use muster_host::{Call, Limits, Outcome, Registry};
use muster_system::fake::FakeSystem;
use muster_wire::status::{Reason, Status};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;

#[derive(Deserialize)]
struct Nothing {}

#[derive(Serialize)]
struct Said {
    said: Value,
}

struct Speak(Value);
struct Panic;
struct Hang(Arc<Notify>);
struct Know;
struct Stumble;
struct Promise;

impl Action for Speak {
    const NAME: &'static str = "speak";
    type Input = Nothing;
    type Output = Said;
    async fn run(&self, _: &Context, _: Nothing) -> Result<Said, ActionError> {
        Ok(Said {
            said: self.0.clone(),
        })
    }
}

impl Action for Panic {
    const NAME: &'static str = "panic";
    type Input = Nothing;
    type Output = Said;
    async fn run(&self, _: &Context, _: Nothing) -> Result<Said, ActionError> {
        panic!("as the test wants")
    }
}

impl Action for Hang {
    const NAME: &'static str = "hang";
    type Input = Nothing;
    type Output = Said;
    async fn run(&self, _: &Context, _: Nothing) -> Result<Said, ActionError> {
        self.0.notified().await;
        Ok(Said {
            said: json!("awake"),
        })
    }
}

impl Action for Know {
    const NAME: &'static str = "know";
    const AT_ONCE: bool = true;
    type Input = Nothing;
    type Output = Said;
    async fn run(&self, _: &Context, _: Nothing) -> Result<Said, ActionError> {
        Ok(Said {
            said: json!("known"),
        })
    }
}

impl Action for Stumble {
    const NAME: &'static str = "stumble";
    const AT_ONCE: bool = true;
    type Input = Nothing;
    type Output = Said;
    async fn run(&self, _: &Context, _: Nothing) -> Result<Said, ActionError> {
        panic!("as the test wants")
    }
}

impl Action for Promise {
    const NAME: &'static str = "promise";
    const AT_ONCE: bool = true;
    type Input = Nothing;
    type Output = Said;
    async fn run(&self, _: &Context, _: Nothing) -> Result<Said, ActionError> {
        std::future::pending().await
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

fn registry(said: Value, wake: &Arc<Notify>, limits: Limits) -> Registry {
    let agent = Agent::builder(&ddl())
        .unwrap()
        .action(Speak(said))
        .action(Panic)
        .action(Hang(Arc::clone(wake)))
        .action(Know)
        .action(Stumble)
        .action(Promise)
        .build()
        .unwrap();
    let mut registry = Registry::new();
    registry.add(agent, limits).unwrap();
    registry
}

fn call(agent: &str, action: &str, within: Duration) -> Call {
    let node = TestNode::named("node1").unwrap();
    let mut context = node
        .context(agent, action, Arc::new(FakeSystem::new()))
        .unwrap();
    context.deadline = Instant::now() + within;
    Call {
        context,
        input: Map::new(),
    }
}

async fn speak(said: Value, limits: Limits) -> Outcome {
    let registry = registry(said, &Arc::default(), limits);
    registry
        .dispatch(call("parrot", "speak", Duration::from_secs(5)))
        .await
}

#[tokio::test]
async fn a_good_answer_passes() {
    let outcome = speak(json!("hello"), Limits::default()).await;
    assert_eq!(
        (outcome.status, outcome.data["said"].clone()),
        (Status::Ok, json!("hello"))
    );
}

#[tokio::test]
async fn unknown_agents_and_actions_are_told_apart() {
    let registry = registry(json!("x"), &Arc::default(), Limits::default());
    for (agent, action, message) in [
        ("ghost", "speak", "this node has no agent ghost"),
        ("parrot", "sing", "agent parrot has no action sing"),
    ] {
        let outcome = registry
            .dispatch(call(agent, action, Duration::from_secs(5)))
            .await;
        assert_eq!(
            (outcome.status, outcome.message.as_str()),
            (Status::UnknownAction, message)
        );
    }
}

#[tokio::test]
async fn a_panic_costs_one_answer() {
    let registry = registry(json!("x"), &Arc::default(), Limits::default());
    let outcome = registry
        .dispatch(call("parrot", "panic", Duration::from_secs(5)))
        .await;
    assert_eq!(
        (outcome.status, outcome.reason),
        (Status::Other, Some(Reason::Broken))
    );
    let next = registry
        .dispatch(call("parrot", "speak", Duration::from_secs(5)))
        .await;
    assert_eq!(next.status, Status::Ok);
}

#[tokio::test(start_paused = true)]
async fn a_hang_ends_at_the_deadline_and_frees_its_slot() {
    let limits = Limits {
        concurrency: 1,
        queue: 0,
        ..Limits::default()
    };
    let registry = registry(json!("x"), &Arc::default(), limits);
    let outcome = registry
        .dispatch(call("parrot", "hang", Duration::from_secs(5)))
        .await;
    assert!(
        matches!(outcome.reason, Some(Reason::Timeout { after_ms: 5000.. })),
        "{outcome:?}"
    );
    tokio::task::yield_now().await;
    let next = registry
        .dispatch(call("parrot", "speak", Duration::from_secs(5)))
        .await;
    assert_eq!(next.status, Status::Ok, "{next:?}");
}

#[tokio::test]
async fn a_full_queue_answers_busy_and_serves_those_who_waited() {
    let wake = Arc::new(Notify::new());
    let limits = Limits {
        concurrency: 1,
        queue: 1,
        ..Limits::default()
    };
    let registry = Arc::new(registry(json!("x"), &wake, limits));
    let ask = |action: &'static str| {
        let registry = Arc::clone(&registry);
        tokio::spawn(async move {
            registry
                .dispatch(call("parrot", action, Duration::from_mins(1)))
                .await
        })
    };
    let (running, waiting) = (ask("hang"), ask("speak"));
    tokio::task::yield_now().await;
    let refused = ask("speak").await.unwrap();
    assert!(
        matches!(refused.reason, Some(Reason::Busy { .. })),
        "{refused:?}"
    );
    wake.notify_one();
    assert_eq!(running.await.unwrap().status, Status::Ok);
    assert_eq!(waiting.await.unwrap().status, Status::Ok);
}

#[tokio::test]
async fn a_flood_is_dropped_and_said_so() {
    let limits = Limits {
        output_bytes: 1000,
        ..Limits::default()
    };
    let outcome = speak(json!("x".repeat(2000)), limits).await;
    assert!(
        matches!(outcome.reason, Some(Reason::Oversized { bytes: 2000.. })),
        "{outcome:?}"
    );
    assert!(outcome.data.is_empty());
}

#[tokio::test]
async fn an_answer_of_the_wrong_type_is_the_plugins_fault() {
    let outcome = speak(json!(7), Limits::default()).await;
    assert_eq!(
        (outcome.status, outcome.reason),
        (Status::Other, Some(Reason::Broken))
    );
    assert!(outcome.message.contains("said"), "{}", outcome.message);
}

fn at_once(registry: &Registry, action: &str) -> Option<Outcome> {
    let call = call("parrot", action, Duration::from_secs(5));
    registry.answer_at_once(call).ok()
}

#[tokio::test]
async fn what_is_known_is_answered_where_it_is_asked() {
    let registry = registry(json!("x"), &Arc::default(), Limits::default());
    let outcome = at_once(&registry, "know").unwrap();
    assert_eq!(
        (outcome.status, outcome.data["said"].clone()),
        (Status::Ok, json!("known"))
    );
    assert!(at_once(&registry, "speak").is_none());
    assert!(at_once(&registry, "sing").is_none());
    let beside = call("parrot", "know", Duration::from_secs(5));
    assert_eq!(registry.dispatch(beside).await.status, Status::Ok);
}

#[tokio::test]
async fn a_panic_or_a_broken_promise_costs_one_answer_there_too() {
    let limits = Limits {
        concurrency: 1,
        ..Limits::default()
    };
    let registry = registry(json!("x"), &Arc::default(), limits);
    for action in ["stumble", "promise"] {
        let outcome = at_once(&registry, action).unwrap();
        assert_eq!(
            (outcome.status, outcome.reason),
            (Status::Other, Some(Reason::Broken))
        );
        assert_eq!(at_once(&registry, "know").unwrap().status, Status::Ok);
    }
}

#[tokio::test]
async fn nobody_is_answered_out_of_turn() {
    let wake = Arc::new(Notify::new());
    let limits = Limits {
        concurrency: 1,
        queue: 1,
        ..Limits::default()
    };
    let registry = Arc::new(registry(json!("x"), &wake, limits));
    let busy = Arc::clone(&registry);
    let running = tokio::spawn(async move {
        busy.dispatch(call("parrot", "hang", Duration::from_mins(1)))
            .await
    });
    tokio::task::yield_now().await;
    assert!(at_once(&registry, "know").is_none());
    wake.notify_one();
    assert_eq!(running.await.unwrap().status, Status::Ok);
    assert!(at_once(&registry, "know").is_some());
}
