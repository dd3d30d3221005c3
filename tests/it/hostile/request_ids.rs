//! What a caller or a service does with the ids of other callers' requests, which `rpcutil running` shows: it neither
//! cancels nor hides them, and its own requests with their ids are apart.

#![expect(clippy::indexing_slicing, reason = "documents are indexed; tests end by panic")]

use muster_calls::CallEventStream;
use muster_tests::await_state;
use muster_wire::identity::SubjectName;
use muster_wire::reply::Reply;
use muster_wire::request::Request;
use muster_wire::sign::Signer;
use muster_wire::status::{ReplyReason, ReplyStatus};
use muster_wire::token::ServiceRight;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::long_actions::{build_call, collect_progress, request_id, slow_fixture};
use crate::node_fixture::{NodeFixture, TestCaller, to_object};

const NODE: &str = "node1.example.net";

/// A node that executes an action of `rip` until it is cancelled.
struct Victim {
    fixture: NodeFixture,
    events: CallEventStream,
    id: Uuid,
}

impl Victim {
    async fn start() -> Self {
        let (fixture, started) = slow_fixture(muster_host::CallLimits::default()).await;
        let mut events = fixture.caller.client.call(build_call("hold", json!({}), false));
        let id = request_id(&mut events).await;
        started.notified().await;
        Self { fixture, events, id }
    }

    async fn connect(&self, attacker: Signer) -> TestCaller {
        TestCaller::connect(&self.fixture.organisation, &self.fixture.server, attacker).await
    }

    /// The rows of the list of running requests that have the id of the victim's request.
    async fn listed(&self) -> Vec<Value> {
        let reply = self.fixture.caller.call_action(NODE, "rpcutil", "running", json!({})).await;
        let rows = reply.reply.data["requests"].as_array().unwrap().clone();
        rows.into_iter().filter(|row| row["id"] == json!(self.id.to_string())).collect()
    }

    /// The request still runs, is listed, and its caller can cancel it.
    async fn assert_unharmed(self) {
        let rows = self.listed().await;
        assert_eq!(rows.len(), 1, "{rows:?}");
        assert_eq!([&rows[0]["caller"], &rows[0]["agent"]], [&json!("rip"), &json!("slow")]);
        assert_eq!(self.fixture.node.core.journals.begun.unanswered().len(), 1);
        let reply = cancel(&self.fixture.caller, "cancel", &self.id.to_string()).await;
        assert_eq!(reply.data["outcome"], json!("cancelled"), "{reply:?}");
        let reply = collect_progress(self.events).await.1.reply;
        assert_eq!(reply.reason, Some(ReplyReason::Cancelled));
    }
}

/// A request of the attacker with this id.
fn forged_request(attacker: &TestCaller, id: Uuid, names: [&str; 2], data: Value) -> Request {
    let [agent, action] = names.map(|name| SubjectName::parse(name).unwrap());
    Request { id, agent, action, data: to_object(data), ..attacker.ping_request() }
}

async fn cancel(caller: &TestCaller, action: &str, id: &str) -> Reply {
    caller.call_action(NODE, "rpcutil", action, json!({ "id": id })).await.reply
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ids_of_others_cancel_nothing() {
    let victim = Victim::start().await;
    let id = victim.id.to_string();
    let organisation = &victim.fixture.organisation;
    let attackers = [
        organisation.caller("mallory"),
        // A name says nothing without its role.
        organisation.service(ServiceRight::Schedule, "rip"),
        organisation.service(ServiceRight::Provision, "rip"),
    ];
    for attacker in attackers {
        let attacker = victim.connect(attacker).await;
        let who = attacker.signer.identity();
        let refused = cancel(&attacker, "cancel", &id).await;
        assert!(matches!(refused.reason, Some(ReplyReason::Denied { .. })), "{who}: {refused:?}");
        let waiting_only = json!({"id": id, "waiting_only": true});
        let refused = attacker.call_action(NODE, "rpcutil", "cancel", waiting_only).await.reply;
        assert!(matches!(refused.reason, Some(ReplyReason::Denied { .. })), "{who}: {refused:?}");
        // Other spellings and parts of the id.
        let simple = victim.id.simple().to_string();
        for spelling in
            [&simple, &id.to_uppercase(), &format!("{{{id}}}"), &format!("urn:uuid:{id}")]
        {
            let refused = cancel(&attacker, "cancel", spelling).await;
            assert_eq!(refused.data.get("outcome"), None, "{who}: {spelling}: {refused:?}");
        }
        for part in [&id[..8], &id[..35], "*", "", "0", &format!("{id},{id}"), &format!("{id}\0")] {
            let refused = cancel(&attacker, "cancel", part).await;
            assert_eq!(refused.statuscode, ReplyStatus::InvalidData, "{who}: {part}: {refused:?}");
        }
        let unknown = cancel(&attacker, "cancel", &Uuid::now_v7().to_string()).await;
        assert_eq!(unknown.data["outcome"], json!("not_running"));
    }
    victim.assert_unharmed().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_with_the_id_of_another_callers_request_leave_it_alone() {
    let victim = Victim::start().await;
    let mallory = victim.connect(victim.fixture.organisation.caller("mallory")).await;
    // One that is answered at once, and one that begins and ends.
    let ping = forged_request(&mallory, victim.id, ["rpcutil", "ping"], json!({}));
    assert_eq!(mallory.send(&ping).await.statuscode, ReplyStatus::Ok);
    assert_eq!(victim.listed().await.len(), 1);
    let reader = victim.connect(victim.fixture.organisation.caller("reader")).await;
    let data = json!({"source": "fstat", "query": "/etc/passwd"});
    let read = forged_request(&reader, victim.id, ["rpcutil", "get_data"], data);
    assert_eq!(reader.send(&read).await.statuscode, ReplyStatus::Ok);
    assert_eq!(victim.listed().await.len(), 1);
    // One that runs at the same time: its caller cancels its own request only.
    let holder = victim.connect(victim.fixture.organisation.caller("holder")).await;
    let hold = forged_request(&holder, victim.id, ["slow", "hold"], json!({}));
    let holding = holder.send(&hold);
    let cancelling = async {
        loop {
            let rows = victim.listed().await;
            if rows.len() == 2 {
                break;
            }
        }
        let reply = cancel(&holder, "cancel", &victim.id.to_string()).await;
        assert_eq!(reply.data["outcome"], json!("cancelled"), "{reply:?}");
        assert_eq!(reply.data["caller"], json!("holder"), "{reply:?}");
    };
    let (reply, ()) = tokio::join!(holding, cancelling);
    assert_eq!(reply.reason, Some(ReplyReason::Cancelled));
    await_state("the copy has ended", || {
        victim.fixture.node.core.journals.begun.unanswered().len() == 1
    })
    .await;
    victim.assert_unharmed().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn undo_record_of_another_callers_request_is_not_replaced() {
    let state = tempfile::tempdir().unwrap();
    let options = json!({"deny_types": [], "state_dir": state.path()});
    let fixture = NodeFixture::new(|setup| setup.puppetral = options).await;
    let file = fixture.node.root().join("motd");
    let write = |content: &str| json!({"type": "file", "name": "/motd", "content": content});
    std::fs::create_dir_all(fixture.node.root()).unwrap();
    std::fs::write(&file, "before").unwrap();
    let request =
        forged_request(&fixture.caller, Uuid::now_v7(), ["puppetral", "do"], write("rip"));
    let reply = fixture.caller.send(&request).await;
    assert_eq!(reply.statuscode, ReplyStatus::Ok, "{reply:?}");
    let mallory = fixture.organisation.caller("mallory");
    let mallory = TestCaller::connect(&fixture.organisation, &fixture.server, mallory).await;
    let copy = forged_request(&mallory, request.id, ["puppetral", "do"], write("mallory"));
    let refused = mallory.send(&copy).await;
    assert_eq!(refused.statuscode, ReplyStatus::Failed, "{refused:?}");
    assert!(refused.statusmsg.raw().contains("undo record"), "{refused:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "rip");
    let input = json!({"undo": request.id.to_string()});
    let undone = fixture.caller.call_action(NODE, "puppetral", "do", input).await.reply;
    assert_eq!(undone.statuscode, ReplyStatus::Ok, "{undone:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "before");
}
