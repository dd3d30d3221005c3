//! Messages of a later version: fields that neither version knows. Nodes refuse such a request, because the field may restrict it; callers ignore such a field of a reply.

use muster_bus::{Bus, Bytes};
use muster_tests::command::{RpcCommand, describe_output};
use muster_tests::organisation::{Organisation, connect};
use muster_tests::program_version::ProgramVersion;
use muster_tests::rpcd::DaemonHome;
use muster_wire::identity::SubjectName;
use muster_wire::sign::{EnvelopeKind, Signer, sign_envelope};
use muster_wire::subject::AnswerAddress;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::fixture::start_daemon;
use crate::node_fixture::{TestCaller, to_object};

const NODE: &str = "node1.example.net";

/// The request is not executed and not answered; the log has the name of the field.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn request_with_an_unknown_field_is_refused_by_both() {
    for version in ProgramVersion::BOTH {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker().await;
        let home = DaemonHome::new(&organisation, &organisation.node(NODE), &server.url(), "");
        home.write("conf.d/root.toml", "[paths]\nroot = \"../root\"\n", 0o644);
        home.write("root/tmp/kept", "", 0o644);
        let node = start_daemon(&home, version).await;
        let caller = TestCaller::connect(&organisation, &server, organisation.caller("rip")).await;
        let mut request = caller.ping_request();
        request.agent = SubjectName::parse("filemgr").unwrap();
        request.action = SubjectName::parse("touch").unwrap();
        for (path, field) in [("/tmp/readable", None), ("/tmp/unreadable", Some("only_on_sunday"))]
        {
            request.id = uuid::Uuid::now_v7();
            request.data = to_object(json!({ "path": path }));
            let mut body = serde_json::to_value(&request).unwrap();
            if let Some(field) = field {
                body[field] = json!(true);
            }
            let signed = sign_envelope(EnvelopeKind::Request, &body, &caller.signer).unwrap();
            let subject = TestCaller::request_subject(&request);
            caller.count_replies(&subject, signed.into()).await;
        }
        // The action takes longer than the ping after it.
        muster_tests::await_state("the readable request is executed", || {
            home.path("root/tmp/readable").exists()
        })
        .await;
        assert!(!home.path("root/tmp/unreadable").exists(), "{version:?}");
        assert!(node.log().contains("unknown field `only_on_sunday`"), "{}", node.log());
    }
}

/// Answers all requests to a node of this name, with a field that no version has, until the task is aborted.
async fn answer_as_a_later_version(bus: Bus, node: Signer) -> JoinHandle<()> {
    let own = format!("muster.*.*.node.{}", node.identity());
    let mut requests = bus.subscribe(&own).await.unwrap();
    bus.flush().await.unwrap();
    tokio::spawn(async move {
        while let Some(request) = requests.next().await {
            let body: Value = serde_json::from_slice(request.payload()).unwrap();
            let field = |name: &str| body.pointer(&format!("/body/{name}")).cloned();
            let reply = json!({
                "request": field("id"), "sender": node.identity(), "agent": field("agent"), "action": field("action"),
                "statuscode": 0, "statusmsg": "OK", "data": {"fact": "site", "value": "later"},
                "time": muster_tests::now(), "took": 0, "mood": {"of": "the node"},
            });
            let sealed = sign_envelope(EnvelopeKind::Reply, &reply, &node).unwrap();
            let reply_to = request.reply_to().unwrap();
            let key = reply_to.split('.').nth(1).unwrap();
            let address = AnswerAddress::from_reply_subject(reply_to, key).unwrap();
            bus.publish(&address.of_node(node.identity()), Bytes::from(sealed)).await.unwrap();
        }
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reply_with_an_unknown_field_is_accepted_by_both() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker().await;
    let node = organisation.node(NODE);
    let bus = connect(&server, &node).await;
    let answering = answer_as_a_later_version(bus, node).await;
    let rpc = RpcCommand::new(&server, &organisation, &organisation.caller("rip"), "");
    for version in ProgramVersion::BOTH {
        let words = ["do", "rpcutil", "get_fact", "fact=site", "-I", NODE, "-j"];
        let output = rpc.prepare_version(version, &words).output().await.unwrap();
        let printed = describe_output(&output);
        assert!(output.status.success(), "{version:?}: {printed}");
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(document["replies"][0]["data"]["value"], json!("later"), "{printed}");
    }
    answering.abort();
}
