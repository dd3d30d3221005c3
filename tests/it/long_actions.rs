//! Long-running actions in the complete daemon: progress before the reply, and cancelled requests.

use std::sync::Arc;

use muster_api::{ActionError, Agent, CallContext, EmptyInput, NoState};
use muster_calls::{
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

use crate::node_fixture::{NodeFixture, TestCaller, to_object};

const NODE: &str = "node1.example.net";

#[derive(Deserialize)]
struct CountInput {
    to: u64,
}

#[derive(Serialize)]
struct TextOutput {
    said: String,
}

/// Waits until it is cancelled, and replies with what it has done; notifies the test when it starts.
async fn hold(
    started: Arc<Notify>,
    cx: CallContext,
    _: EmptyInput,
) -> Result<TextOutput, ActionError> {
    cx.report_progress("begun");
    started.notify_one();
    cx.cancel.cancelled().await;
    Err(ActionError::cancelled().with_data(to_object(json!({"said": "half of it"}))))
}

fn build_slow_agent(started: &Arc<Notify>) -> Agent {
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
    let agent = agent
        // Sends an event for each number.
        .action("count", &NoState, |_, cx, input: CountInput| async move {
            for number in 0..input.to {
                cx.emit_event(json!({ "number": number }));
            }
            cx.report_progress("done");
            Ok(TextOutput { said: input.to.to_string() })
        })
        .action("hold", started, hold);
    let agent = agent.build().unwrap();
    assert!(agent.ddl().find_action("hold").unwrap().streams_progress());
    agent
}

/// A node with an agent whose action `hold` runs until it is cancelled.
pub(crate) async fn slow_fixture(limits: CallLimits) -> (NodeFixture, Arc<Notify>) {
    let started = Arc::new(Notify::new());
    let slow = build_slow_agent(&started);
    let fixture = NodeFixture::new(|setup| {
        setup.agents = vec![slow];
        setup.limits = limits;
    });
    (fixture.await, started)
}

pub(crate) fn build_call(action: &str, data: Value, stream: bool) -> RpcCall {
    let nodes = [Identity::parse(NODE).unwrap()].into();
    let call = RpcCall::new("slow", action, CallTarget::Nodes(nodes)).unwrap();
    RpcCall { data: to_object(data), stream, ..call }
}

/// Collects the progress of a call until its reply.
pub(crate) async fn collect_progress(
    mut events: CallEventStream,
) -> (Vec<ProgressUpdate>, ReceivedReply) {
    let mut updates = Vec::new();
    loop {
        match events.next().await.unwrap() {
            CallEvent::Progress(update) => updates.push(*update),
            CallEvent::Reply(answer) => return (updates, *answer),
            CallEvent::Published { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

/// The id of the request of a call.
pub(crate) async fn request_id(events: &mut CallEventStream) -> Uuid {
    match events.next().await.unwrap() {
        CallEvent::Published { request, .. } => request,
        other => panic!("{other:?}"),
    }
}

async fn cancel(caller: &TestCaller, action: &str, id: Uuid) -> muster_wire::reply::Reply {
    let input = json!({"id": id.to_string()});
    caller.call_action(NODE, "rpcutil", action, input).await.reply
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_arrives_in_order_only_if_requested() {
    let (fixture, _) = slow_fixture(CallLimits::default()).await;
    let client = &fixture.caller.client;
    let (updates, answer) =
        collect_progress(client.call(build_call("count", json!({"to": 25}), true))).await;
    let events: Vec<Value> = updates.iter().flat_map(|update| update.events.clone()).collect();
    let mut expected: Vec<Value> = (0..25).map(|number| json!({ "number": number })).collect();
    expected.push(json!({"message": "done"}));
    assert_eq!(events, expected);
    assert!(updates.iter().all(|update| update.lost == 0 && update.dropped == 0));
    let messages = updates.len() as u64;
    assert_eq!(answer.reply.progress, Some(ProgressCounts { messages, dropped: 0 }));
    let (updates, answer) =
        collect_progress(client.call(build_call("count", json!({"to": 25}), false))).await;
    assert_eq!((updates, answer.reply.progress), (vec![], None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn excess_progress_is_dropped_and_counted() {
    let (fixture, _) = slow_fixture(CallLimits::default()).await;
    let to = 200_000_u64;
    let events = fixture.caller.client.call(build_call("count", json!({ "to": to }), true));
    let (updates, answer) = collect_progress(events).await;
    assert_eq!(answer.reply.statuscode, ReplyStatus::Ok);
    let received: usize = updates.iter().map(|update| update.events.len()).sum();
    let dropped: u64 = updates.iter().map(|update| update.dropped).sum();
    assert!(dropped > 0);
    assert_eq!(received as u64 + dropped, to + 1);
    let counts = answer.reply.progress.unwrap();
    assert!(counts.messages <= MAX_PROGRESS_MESSAGES);
    assert_eq!(counts.dropped, dropped);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn caller_lists_and_cancels_its_running_request() {
    let (fixture, started) = slow_fixture(CallLimits::default()).await;
    let mut events = fixture.caller.client.call(build_call("hold", json!({}), true));
    let request = request_id(&mut events).await;
    started.notified().await;

    let listed = fixture.caller.call_action(NODE, "rpcutil", "running", json!({})).await;
    let listed = &listed.reply.data["requests"];
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(listed[0]["id"], json!(request.to_string()));
    assert_eq!(
        [&listed[0]["caller"], &listed[0]["agent"], &listed[0]["action"]],
        [&json!("rip"), &json!("slow"), &json!("hold")]
    );

    let other_caller = fixture.organisation.caller("ann");
    let other_caller =
        TestCaller::connect(&fixture.organisation, &fixture.server, other_caller).await;
    let refused = cancel(&other_caller, "cancel", request).await;
    assert!(matches!(refused.reason, Some(ReplyReason::Denied { .. })), "{refused:?}");
    let unknown = cancel(&fixture.caller, "cancel", Uuid::now_v7()).await;
    assert_eq!(unknown.data["outcome"], json!("not_running"));

    let done = cancel(&fixture.caller, "cancel", request).await;
    assert_eq!(done.data["outcome"], json!("cancelled"), "{done:?}");
    let (updates, answer) = collect_progress(events).await;
    assert_eq!(updates[0].events, [json!({"message": "begun"})]);
    let reply = answer.reply;
    assert_eq!(
        (reply.statuscode, reply.reason),
        (ReplyStatus::Other, Some(ReplyReason::Cancelled))
    );
    assert_eq!(reply.data["said"], json!("half of it"));

    let after = fixture.caller.call_action(NODE, "rpcutil", "running", json!({})).await;
    assert_eq!(after.reply.data["count"], json!(0));
    let recorded = fixture.node.audit_records();
    assert!(recorded.iter().any(|record| {
        record["request"] == json!(request.to_string()) && record["reason"] == json!("cancelled")
    }));
    assert!(recorded.iter().any(|record| record["action"] == json!("cancel")
        && record["data"]["id"] == json!(request.to_string())));
}

/// A node that executes one request, and has another in its queue.
async fn queued_fixture() -> (NodeFixture, (CallEventStream, Uuid), (CallEventStream, Uuid)) {
    let limits = CallLimits { concurrency: 1, queue: 5, ..CallLimits::default() };
    let (fixture, started) = slow_fixture(limits).await;
    let mut first = fixture.caller.client.call(build_call("hold", json!({}), false));
    let running = request_id(&mut first).await;
    started.notified().await;
    let mut second = fixture.caller.client.call(build_call("count", json!({"to": 1}), false));
    let waiting = request_id(&mut second).await;
    (fixture, (first, running), (second, waiting))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_queued_request_is_never_started() {
    let (fixture, (first, running), (second, waiting)) = queued_fixture().await;
    // The list contains every accepted request, including those that wait for a slot.
    let operator = fixture.organisation.caller("operator");
    let operator = TestCaller::connect(&fixture.organisation, &fixture.server, operator).await;
    loop {
        let listed = operator.call_action(NODE, "rpcutil", "running", json!({})).await;
        if listed.reply.data["count"] == json!(2) {
            break;
        }
    }
    let done = cancel(&operator, "cancel_any", waiting).await;
    assert_eq!(done.data["caller"], json!("rip"), "{done:?}");
    let (_, answer) = collect_progress(second).await;
    assert_eq!(answer.reply.reason, Some(ReplyReason::Cancelled));
    assert_eq!(answer.reply.statusmsg, "cancelled before the action started");
    assert!(answer.reply.data.is_empty());
    cancel(&operator, "cancel_any", running).await;
    assert_eq!(collect_progress(first).await.1.reply.reason, Some(ReplyReason::Cancelled));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_only_cancels_only_work_that_has_not_begun() {
    let (fixture, (first, running), (second, waiting)) = queued_fixture().await;
    let withdraw = async |id: Uuid| {
        let input = json!({"id": id.to_string(), "waiting_only": true});
        fixture.caller.call_action(NODE, "rpcutil", "cancel", input).await.reply
    };
    assert_eq!(withdraw(running).await.data["outcome"], json!("withdrawn"));
    while withdraw(waiting).await.data["outcome"] != json!("withdrawn") {}
    let (_, answer) = collect_progress(second).await;
    assert_eq!(answer.reply.statusmsg, "cancelled before the action started");
    // The first one still runs.
    let done = cancel(&fixture.caller, "cancel", running).await;
    assert_eq!(done.data["outcome"], json!("cancelled"));
    assert_eq!(collect_progress(first).await.1.reply.reason, Some(ReplyReason::Cancelled));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn program_output_is_streamed_and_cancel_ends_the_program() {
    let jobs = tempfile::tempdir().unwrap();
    let shell =
        muster_agents::shell::Options { enabled: true, ..muster_agents::shell::Options::default() };
    let shell = muster_agents::shell::build_agent(shell, jobs.path().to_owned()).unwrap();
    let fixture = NodeFixture::new(|setup| setup.agents = vec![shell]).await;
    let nodes = [Identity::parse(NODE).unwrap()].into();
    let call = RpcCall::new("shell", "run", CallTarget::Nodes(nodes)).unwrap();
    let script = "echo $SECRET | tr a-z A-Z; echo oops >&2; exec sleep 600";
    let mut events = fixture.caller.client.call(RpcCall {
        data: to_object(json!({"script": script, "env": {"SECRET": "hunter2"}})),
        sensitive: ["env".to_owned()].into(),
        stream: true,
        wait: std::time::Duration::from_secs(80),
        ..call
    });
    let request = request_id(&mut events).await;
    let mut lines = Vec::new();
    while lines.len() < 2 {
        match events.next().await.unwrap() {
            CallEvent::Progress(update) => lines.extend(update.events),
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
    let done = cancel(&fixture.caller, "cancel", request).await;
    assert_eq!(done.data["outcome"], json!("cancelled"));
    let reply = collect_progress(events).await.1.reply;
    assert_eq!(reply.reason, Some(ReplyReason::Cancelled), "{reply:?}");
    assert_eq!(reply.data["stdout"], json!("HUNTER2\n"));
    let audit = serde_json::to_string(&fixture.node.audit_records()).unwrap();
    assert!(audit.contains("sleep 600") && !audit.contains("hunter2"));
}
