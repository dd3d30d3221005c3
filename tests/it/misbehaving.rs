//! An action that panics, one that hangs and one that floods cost one reply each, through the whole daemon.

use std::time::Duration;

use muster_api::{Action, ActionError, Agent, Context};
use muster_client::{Aim, Call};
use muster_host::Limits;
use muster_wire::identity::Identity;
use muster_wire::status::{Reason, Status};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::ask::World;

#[derive(Deserialize)]
struct Nothing {}

#[derive(Serialize)]
struct Said {
    said: String,
}

struct Panic;
struct Hang;
struct Flood;

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
    async fn run(&self, cx: &Context, _: Nothing) -> Result<Said, ActionError> {
        // Blocking work that never looks at its flag, as a stuck file system.
        let stuck = cx
            .blocking(|cancel| {
                while !cancel.is_cancelled() {
                    std::thread::yield_now();
                }
            })
            .await;
        stuck.map(|()| Said {
            said: "awake".to_owned(),
        })
    }
}

impl Action for Flood {
    const NAME: &'static str = "flood";
    type Input = Nothing;
    type Output = Said;
    async fn run(&self, _: &Context, _: Nothing) -> Result<Said, ActionError> {
        Ok(Said {
            said: "x".repeat(8 * 1024 * 1024),
        })
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
        .action(Panic)
        .action(Hang)
        .action(Flood)
        .build()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_costs_exactly_one_reply() {
    let world = World::new(|blueprint| {
        blueprint.agents = vec![agent()];
        blueprint.limits = Limits {
            concurrency: 2,
            queue: 2,
            ..Limits::default()
        };
    })
    .await;
    let node = "node1.example.net";
    let panicked = world
        .caller
        .ask(node, "trouble", "panic", json!({}))
        .await
        .reply;
    assert_eq!(
        (panicked.statuscode, panicked.reason),
        (Status::Other, Some(Reason::Broken))
    );
    let flooded = world
        .caller
        .ask(node, "trouble", "flood", json!({}))
        .await
        .reply;
    assert!(
        matches!(
            flooded.reason,
            Some(Reason::Oversized { bytes: 8_000_000.. })
        ),
        "{flooded:?}"
    );

    let mut call = Call::new(
        "trouble",
        "hang",
        Aim::Nodes([Identity::parse(node).unwrap()].into()),
    )
    .unwrap();
    call.timeout = Some(Duration::from_millis(400));
    let asking = world.caller.call(call);
    let meanwhile = world.caller.ask(node, "rpcutil", "ping", json!({}));
    let ((answers, stats), ping) = tokio::join!(asking, meanwhile);
    assert_eq!(ping.reply.statuscode, Status::Ok);
    let hung = &answers[&Identity::parse(node).unwrap()].reply;
    assert!(
        matches!(hung.reason, Some(Reason::Timeout { after_ms: 400.. })),
        "{hung:?}"
    );
    assert!(stats.missing.is_empty());

    assert_eq!(
        world
            .caller
            .ask(node, "rpcutil", "ping", json!({}))
            .await
            .reply
            .statuscode,
        Status::Ok
    );
    assert_eq!(world.node.core.counted().replies, 5);
}
