//! Requests with the stolen key of a scheduler: a node executes only what an author scheduled, where and when, and once.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_calls::{CallTarget, Client, RpcCall};
use muster_schedule::{CompiledSchedule, slot_request_id};
use muster_tests::poll_until_ok;
use muster_wire::request::RequestGrant;
use muster_wire::schedule_grant::ScheduleGrant;
use muster_wire::status::ReplyStatus;
use muster_wire::token::{ServiceRight, UserRole};
use serde_json::json;
use uuid::Uuid;

use super::fixture::{ScheduleFixture, ScheduleNode, identity, touch_spec};

const WEB: &str = "web1.example.net";
const OTHER: &str = "db1.example.net";
/// Long enough that the whole test is in one turn, unless it begins at its end.
const HOUR: u64 = 3600;

/// The request that a scheduler sends for a slot.
fn scheduled_call(node: &str, grant: &ScheduleGrant, text: &str, slot: u64) -> RpcCall {
    let node = identity(node);
    let spec = &grant.schedule;
    let word = |name: &str| spec[name].as_str().unwrap().to_owned();
    let target = CallTarget::Nodes(BTreeSet::from([node.clone()]));
    let mut call = RpcCall::new(&word("agent"), &word("action"), target).unwrap();
    call.data.clone_from(spec["inputs"].as_object().unwrap());
    call.timeout = Some(Duration::from_secs(10));
    call.wait = Duration::from_secs(5);
    call.id = Some(slot_request_id(grant.id, &node, slot));
    call.grant = Some(RequestGrant { text: text.to_owned(), slot });
    call
}

/// The request that withdraws the turn of a slot.
fn withdrawal_call(node: &str, grant: &ScheduleGrant, text: &str, slot: u64) -> RpcCall {
    let request = CompiledSchedule::withdrawal_request(grant.id, &identity(node), slot);
    let target = CallTarget::Nodes(BTreeSet::from([identity(node)]));
    let mut call = RpcCall::new(&request.agent, &request.action, target).unwrap();
    call.data = request.inputs;
    call.wait = Duration::from_secs(5);
    call.id = Some(request.id);
    call.grant = Some(RequestGrant { text: text.to_owned(), slot });
    call
}

/// Status and message of the reply; `None` if the node did not reply.
async fn send(client: &Client, call: RpcCall) -> Option<(ReplyStatus, String)> {
    let mut found = None;
    let call = client.run_call(call, |reply| {
        found = Some((reply.reply.statuscode, reply.reply.statusmsg.raw().to_owned()));
    });
    call.await.unwrap();
    found
}

/// Sends the call with the key of a service of its own: a node answers each request of a sender once.
async fn assert_refused(fleet: &ScheduleFixture, call: RpcCall, expected: &str) {
    let thief = fleet.organisation.service(ServiceRight::Schedule, "scheduler1");
    let client = ScheduleFixture::connect_client(&fleet.organisation, &fleet.server, &thief).await;
    assert_refused_by(&client, call, expected).await;
}

async fn assert_refused_by(client: &Client, call: RpcCall, expected: &str) {
    let Some((status, message)) = send(client, call).await else {
        panic!("no reply that says: {expected}")
    };
    assert_eq!(status, ReplyStatus::Other, "{message}");
    assert!(message.contains(expected), "{message} does not say: {expected}");
}

/// Waits until a node answers the author.
async fn await_node(fleet: &ScheduleFixture, node: &str) {
    poll_until_ok("the node answers", Duration::from_mins(1), async || {
        let target = CallTarget::Nodes(BTreeSet::from([identity(node)]));
        let mut call = RpcCall::new("rpcutil", "ping", target).unwrap();
        call.wait = Duration::from_secs(5);
        send(&fleet.client, call).await.ok_or(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stolen_key_of_a_scheduler_permits_only_what_an_author_scheduled() {
    let mut fleet = ScheduleFixture::start().await;
    let web = fleet.start_node(WEB, "{\"role\":\"web\"}");
    let _other = fleet.start_node(OTHER, "{\"role\":\"db\"}");
    let thief = fleet.organisation.service(ServiceRight::Schedule, "scheduler1");
    let client = ScheduleFixture::connect_client(&fleet.organisation, &fleet.server, &thief).await;
    for node in [WEB, OTHER] {
        await_node(&fleet, node).await;
    }
    let path = web.daemon.home().path("touched");
    let mut spec = touch_spec(path.to_str().unwrap());
    spec["every"] = json!(HOUR);
    let grant = fleet.grant("hourly", &spec);
    let text = grant.sign(&fleet.author).unwrap();
    let slot = muster_tests::now() / (HOUR * 1000) * HOUR * 1000;
    let call = |node| scheduled_call(node, &grant, &text, slot);

    // Without the schedule, and with anything else than the schedule says.
    let plain = RpcCall { grant: None, ..call(WEB) };
    assert_refused(&fleet, plain, "is not allowed").await;
    let mut other_data = call(WEB);
    other_data.data.insert("path".to_owned(), json!("/etc/passwd"));
    assert_refused(&fleet, other_data, "the data of the request differs").await;
    let mut other_action = RpcCall::new("filemgr", "remove", call(WEB).target).unwrap();
    other_action.data = call(WEB).data;
    (other_action.id, other_action.grant) = (call(WEB).id, call(WEB).grant);
    assert_refused(&fleet, other_action, "differs").await;
    let other_id = RpcCall { id: None, ..call(WEB) };
    assert_refused(&fleet, other_id, "the id of the request differs").await;
    assert_refused(&fleet, call(OTHER), "does not match the filter").await;
    let early = scheduled_call(WEB, &grant, &text, slot + 2 * HOUR * 1000);
    assert_refused(&fleet, early, "has not begun").await;
    let between = scheduled_call(WEB, &grant, &text, slot + 1000);
    assert_refused(&fleet, between, "is not a time of the schedule").await;
    let late = scheduled_call(WEB, &grant, &text, slot - 3 * HOUR * 1000);
    assert_refused(&fleet, late, "ended at").await;

    // A schedule that another user signed in the author's name, and one that a caller sends.
    let forged = grant.sign(&fleet.organisation.caller("mallory")).unwrap();
    assert_refused(&fleet, scheduled_call(WEB, &grant, &forged, slot), "but mallory signed it")
        .await;
    let bob = fleet.organisation.caller("bob");
    let bob = ScheduleFixture::connect_client(&fleet.organisation, &fleet.server, &bob).await;
    assert_refused_by(&bob, call(WEB), "only schedulers").await;
    let reader = fleet.organisation.user(UserRole::Caller, "anna", &["agent:filemgr.status"]);
    let unpermitted = grant.sign(&reader).unwrap();
    let unpermitted = scheduled_call(WEB, &grant, &unpermitted, slot);
    assert_refused(&fleet, unpermitted, "the token does not permit it").await;

    // A withdrawal cancels no other request, and a caller sends none.
    let mut withdrawal = withdrawal_call(WEB, &grant, &text, slot);
    withdrawal.data.insert("id".to_owned(), json!(Uuid::now_v7()));
    assert_refused(&fleet, withdrawal, "the data of the request differs").await;
    let mut running_too = withdrawal_call(WEB, &grant, &text, slot);
    running_too.data.remove("waiting_only");
    assert_refused(&fleet, running_too, "the data of the request differs").await;
    let other_id = RpcCall { id: None, ..withdrawal_call(WEB, &grant, &text, slot) };
    assert_refused(&fleet, other_id, "the agent of the request differs").await;
    assert_refused_by(&bob, withdrawal_call(WEB, &grant, &text, slot), "only schedulers").await;

    // What is scheduled runs once: none of the refused requests has used up the turn.
    await_executions(&web, 0).await;
    let (status, message) = send(&client, call(WEB)).await.unwrap();
    assert_eq!(status, ReplyStatus::Ok, "{message}");
    await_executions(&web, 1).await;
    assert_refused_by(&client, call(WEB), "has begun before").await;
    let second = fleet.organisation.service(ServiceRight::Schedule, "scheduler2");
    let second = ScheduleFixture::connect_client(&fleet.organisation, &fleet.server, &second).await;
    assert_refused_by(&second, call(WEB), "has begun before").await;
    await_executions(&web, 1).await;

    // The schedules of a revoked author end at once.
    let author = fleet.author.clone();
    let token = fleet.organisation.revoke_user(&author);
    fleet.organisation.push_account(&fleet.server, &token).await;
    fleet.organisation.publish_account(&fleet.server, &token).await;
    poll_until_ok("the schedule is refused", Duration::from_secs(20), async || {
        let other = fleet.grant("other", &spec);
        let other_text = other.sign(&fleet.author).unwrap();
        let call = scheduled_call(WEB, &other, &other_text, slot);
        match send(&client, call).await {
            Some((ReplyStatus::Other, message)) if message.contains("not accepted") => Ok(()),
            found => Err(found),
        }
    })
    .await;
}

async fn await_executions(node: &ScheduleNode, count: usize) {
    poll_until_ok("the audit log", Duration::from_secs(20), async || {
        let executions = node.executions();
        if executions.len() == count { Ok(()) } else { Err(executions) }
    })
    .await;
}
