//! Long-running actions through the whole daemon: progress before the reply, and requests that are taken back.

use std::sync::Arc;

use muster_api::{ActionError, Agent, CallContext, EmptyInput, NoState};
use muster_client::{
    CallEvent, CallEventStream, CallTarget, ProgressUpdate, ReceivedReply, RpcCall,
};
use muster_host::CallLimits;
use muster_wire::identity::Identity;
use muster_wire::progress::{MAX_PROGRESS_MESSAGES, ProgressCounts};
use muster_wire::status::{ReplyReason, ReplyStatus};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Notify;
use uuid::Uuid;

use crate::ask::{Caller, World, object};

const NODE: &str = "node1.example.net";

#[derive(Deserialize)]
struct Count {
    to: u64,
}

#[derive(Serialize)]
struct Said {
    said: String,
}

/// Tells of each number, and waits after every tenth until that was sent.
async fn count(_: NoState, cx: CallContext, input: Count) -> Result<Said, ActionError> {
    tokio::task::yield_now().await;
    for number in 0..input.to {
        cx.emit_event(json!({ "number": number }));
    }
    cx.report_progress("done");
    Ok(Said { said: input.to.to_string() })
}

/// Works until it is taken back, and says what it had done; tells the test when it begins.
async fn hold(begun: Arc<Notify>, cx: CallContext, _: EmptyInput) -> Result<Said, ActionError> {
    cx.report_progress("begun");
    begun.notify_one();
    cx.cancel.cancelled().await;
    Err(ActionError::cancelled().with_data(object(json!({"said": "half of it"}))))
}

fn agent(begun: &Arc<Notify>) -> Agent {
    let to =
        json!({"to": {"prompt": "To", "description": "d", "type": "integer", "optional": false}});
    let action = |name: &str, input: Value| {
        json!({"action": name, "description": "d", "display": "always", "input": input, "streams": true,
               "output": {"said": {"description": "d", "display_as": "Said", "type": "string"}}})
    };
    let ddl = json!({
        "metadata": {"name": "slow", "description": "d", "author": "a", "license": "l",
                     "version": "1.0.0", "url": "u", "timeout": 120},
        "actions": [action("count", to), action("hold", json!({}))],
    });
    let agent = Agent::builder(&ddl.to_string()).unwrap();
    let agent = agent.action("count", &NoState, count).action("hold", begun, hold);
    let agent = agent.build().unwrap();
    assert!(agent.ddl().find_action("hold").unwrap().streams_progress());
    agent
}

async fn world(limits: CallLimits) -> (World, Arc<Notify>) {
    let begun = Arc::new(Notify::new());
    let slow = agent(&begun);
    let world = World::new(|blueprint| {
        blueprint.agents = vec![slow];
        blueprint.limits = limits;
    });
    (world.await, begun)
}

fn call(action: &str, data: Value, stream: bool) -> RpcCall {
    let nodes = [Identity::parse(NODE).unwrap()].into();
    let call = RpcCall::new("slow", action, CallTarget::Nodes(nodes)).unwrap();
    RpcCall { data: object(data), stream, ..call }
}

/// The request's id, what was told, and the answer.
async fn hear(mut events: CallEventStream) -> (Vec<ProgressUpdate>, ReceivedReply) {
    let mut tales = Vec::new();
    loop {
        match events.next().await.unwrap() {
            CallEvent::Progress(tale) => tales.push(*tale),
            CallEvent::Reply(answer) => return (tales, *answer),
            CallEvent::Published { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

async fn id(events: &mut CallEventStream) -> Uuid {
    match events.next().await.unwrap() {
        CallEvent::Published { request, .. } => request,
        other => panic!("{other:?}"),
    }
}

async fn cancel(caller: &Caller, action: &str, id: Uuid) -> muster_wire::reply::Reply {
    let input = json!({"id": id.to_string()});
    caller.ask(NODE, "rpcutil", action, input).await.reply
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_comes_in_order_before_the_reply_and_only_if_it_is_wanted() {
    let (world, _) = world(CallLimits::default()).await;
    let client = &world.caller.client;
    let (tales, answer) = hear(client.call(call("count", json!({"to": 25}), true))).await;
    let events: Vec<Value> = tales.iter().flat_map(|tale| tale.events.clone()).collect();
    let mut expected: Vec<Value> = (0..25).map(|number| json!({ "number": number })).collect();
    expected.push(json!({"message": "done"}));
    assert_eq!(events, expected);
    assert!(tales.iter().all(|tale| tale.lost == 0 && tale.dropped == 0));
    let messages = tales.len() as u64;
    assert_eq!(answer.reply.progress, Some(ProgressCounts { messages, dropped: 0 }));
    let (tales, answer) = hear(client.call(call("count", json!({"to": 25}), false))).await;
    assert_eq!((tales, answer.reply.progress), (vec![], None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_progress_is_left_out_and_counted_and_the_reply_gets_through() {
    let (world, _) = world(CallLimits::default()).await;
    let to = 200_000_u64;
    let asked = world.caller.client.call(call("count", json!({ "to": to }), true));
    let (tales, answer) = hear(asked).await;
    assert_eq!(answer.reply.statuscode, ReplyStatus::Ok);
    let told: usize = tales.iter().map(|tale| tale.events.len()).sum();
    let dropped: u64 = tales.iter().map(|tale| tale.dropped).sum();
    assert!(dropped > 0);
    assert_eq!(told as u64 + dropped, to + 1);
    let said = answer.reply.progress.unwrap();
    assert!(said.messages <= MAX_PROGRESS_MESSAGES);
    assert_eq!(said.dropped, dropped);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_request_is_listed_and_taken_back_by_its_caller_with_what_it_had_done() {
    let (world, begun) = world(CallLimits::default()).await;
    let mut events = world.caller.client.call(call("hold", json!({}), true));
    let request = id(&mut events).await;
    begun.notified().await;

    let listed = world.caller.ask(NODE, "rpcutil", "running", json!({})).await;
    let listed = &listed.reply.data["requests"];
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(listed[0]["id"], json!(request.to_string()));
    assert_eq!(
        [&listed[0]["caller"], &listed[0]["agent"], &listed[0]["action"]],
        [&json!("rip"), &json!("slow"), &json!("hold")]
    );

    let stranger = world.organisation.caller("ann");
    let stranger = Caller::connect(&world.organisation, &world.server, stranger).await;
    let refused = cancel(&stranger, "cancel", request).await;
    assert!(matches!(refused.reason, Some(ReplyReason::Denied { .. })), "{refused:?}");
    let unknown = cancel(&world.caller, "cancel", Uuid::now_v7()).await;
    assert_eq!(unknown.data["outcome"], json!("not_running"));

    let done = cancel(&world.caller, "cancel", request).await;
    assert_eq!(done.data["outcome"], json!("cancelled"), "{done:?}");
    let (tales, answer) = hear(events).await;
    assert_eq!(tales[0].events, [json!({"message": "begun"})]);
    let reply = answer.reply;
    assert_eq!(
        (reply.statuscode, reply.reason),
        (ReplyStatus::Other, Some(ReplyReason::Cancelled))
    );
    assert_eq!(reply.data["said"], json!("half of it"));

    let after = world.caller.ask(NODE, "rpcutil", "running", json!({})).await;
    assert_eq!(after.reply.data["count"], json!(0));
    let recorded = world.node.audit();
    assert!(recorded.iter().any(|record| {
        record["request"] == json!(request.to_string()) && record["reason"] == json!("cancelled")
    }));
    assert!(recorded.iter().any(|record| record["action"] == json!("cancel")
        && record["data"]["id"] == json!(request.to_string())));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_waits_for_its_turn_is_never_started() {
    let (world, begun) =
        world(CallLimits { concurrency: 1, queue: 5, ..CallLimits::default() }).await;
    let mut first = world.caller.client.call(call("hold", json!({}), false));
    let running = id(&mut first).await;
    begun.notified().await;
    let mut second = world.caller.client.call(call("count", json!({"to": 1}), false));
    let waiting = id(&mut second).await;
    // Listed is whatever was accepted, also before it has a slot.
    let any = world.organisation.caller("operator");
    let any = Caller::connect(&world.organisation, &world.server, any).await;
    loop {
        let listed = any.ask(NODE, "rpcutil", "running", json!({})).await;
        if listed.reply.data["count"] == json!(2) {
            break;
        }
    }
    let done = cancel(&any, "cancel_any", waiting).await;
    assert_eq!(done.data["caller"], json!("rip"), "{done:?}");
    let (_, answer) = hear(second).await;
    assert_eq!(answer.reply.reason, Some(ReplyReason::Cancelled));
    assert_eq!(answer.reply.statusmsg, "cancelled before the action started");
    assert!(answer.reply.data.is_empty());
    cancel(&any, "cancel_any", running).await;
    assert_eq!(hear(first).await.1.reply.reason, Some(ReplyReason::Cancelled));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_is_shown_as_it_runs_and_ends_when_its_request_is_taken_back() {
    let jobs = tempfile::tempdir().unwrap();
    let shell = muster_shell::Options { enabled: true, ..muster_shell::Options::default() };
    let shell = muster_shell::build_agent(shell, jobs.path().to_owned()).unwrap();
    let world = World::new(|blueprint| blueprint.agents = vec![shell]).await;
    let nodes = [Identity::parse(NODE).unwrap()].into();
    let call = RpcCall::new("shell", "run", CallTarget::Nodes(nodes)).unwrap();
    let script = "echo $SECRET | tr a-z A-Z; echo oops >&2; exec sleep 600";
    let mut events = world.caller.client.call(RpcCall {
        data: object(json!({"script": script, "env": {"SECRET": "hunter2"}})),
        sensitive: ["env".to_owned()].into(),
        stream: true,
        wait: std::time::Duration::from_secs(80),
        ..call
    });
    let request = id(&mut events).await;
    let mut lines = Vec::new();
    while lines.len() < 2 {
        match events.next().await.unwrap() {
            CallEvent::Progress(tale) => lines.extend(tale.events),
            other => panic!("{other:?}"),
        }
    }
    lines.sort_by_key(ToString::to_string);
    assert_eq!(
        lines,
        [
            json!({"stream": "stdout", "line": "HUNTER2"}),
            json!({"stream": "stderr", "line": "oops"})
        ]
    );
    let done = cancel(&world.caller, "cancel", request).await;
    assert_eq!(done.data["outcome"], json!("cancelled"));
    let reply = hear(events).await.1.reply;
    assert_eq!(reply.reason, Some(ReplyReason::Cancelled), "{reply:?}");
    assert_eq!(reply.data["stdout"], json!("HUNTER2\n"));
    let audit = serde_json::to_string(&world.node.audit()).unwrap();
    assert!(audit.contains("sleep 600") && !audit.contains("hunter2"));
}
