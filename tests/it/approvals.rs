//! Two-person approval over a real broker: a node executes what two people signed, once, and nothing else.

use muster_calls::{CallTarget, OfflineSigner, ProposalDraft, RpcCall};
use muster_node::config::PolicyOptions;
use muster_tests::organisation::Organisation;
use muster_tests::rpcd::DaemonHome;
use muster_wire::approval::{ProposalInputs, RequestProposal};
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::reply::Reply;
use muster_wire::request::Request;
use muster_wire::sign::{EnvelopeKind, Signer, sign_envelope};
use muster_wire::status::{ReplyReason, ReplyStatus};
use muster_wire::token::{ServiceRight, UserRole};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::enrolled_names::await_log;
use crate::node_fixture::{NodeFixture, TestCaller, to_object};

const NODE: &str = "node1.example.net";

/// A node that permits rip to read facts if one of the approvers agrees.
async fn approval_fixture() -> NodeFixture {
    NodeFixture::new(|setup| {
        let policy = "policy default deny\nallow\trip\tget_fact\t*\t*\tapproved-by=approvers\nallow\t*\tping\t*\n";
        setup.policies = vec![
            ("rpcutil.policy".to_owned(), policy.to_owned()),
            ("groups".to_owned(), "approvers anna joe\n".to_owned()),
        ];
    })
    .await
}

fn offline_signer(organisation: &Organisation, signer: Signer) -> OfflineSigner {
    OfflineSigner { signer, trust: organisation.trust() }
}

fn draft(fact: &str) -> ProposalDraft {
    ProposalDraft {
        collective: SubjectName::parse("muster").unwrap(),
        agent: SubjectName::parse("rpcutil").unwrap(),
        action: SubjectName::parse("get_fact").unwrap(),
        nodes: [Identity::parse(NODE).unwrap()].into(),
        data: to_object(json!({"fact": fact})),
        secret: [].into(),
        lifetime: std::time::Duration::from_hours(1),
    }
}

/// A proposal of rip, approved by this signer.
fn sign_approval(fixture: &NodeFixture, draft: &ProposalDraft, approver: Signer) -> String {
    let rip = offline_signer(&fixture.organisation, fixture.caller.signer.clone());
    let proposal = rip.sign_proposal(draft).unwrap();
    encode_approval(
        &offline_signer(&fixture.organisation, approver).sign_approval(&proposal).unwrap(),
    )
}

fn encode_approval(approval: &[u8]) -> String {
    muster_wire::sign::encode_envelope(approval)
}

async fn request_fact(fixture: &NodeFixture, fact: &str, approval: Option<String>) -> Reply {
    let nodes = [Identity::parse(NODE).unwrap()].into();
    let mut call = RpcCall::new("rpcutil", "get_fact", CallTarget::Nodes(nodes)).unwrap();
    call.data = to_object(json!({"fact": fact}));
    call.approval = approval;
    let (mut answers, stats) = fixture.caller.call(call).await;
    answers.pop_first().unwrap_or_else(|| panic!("no answer: {stats:?}")).1.reply
}

/// The rule of a denial.
fn denial_rule(reply: &Reply) -> &str {
    match &reply.reason {
        Some(ReplyReason::Denied { rule }) => rule,
        _ => panic!("not denied: {reply:?}"),
    }
}

#[tokio::test]
async fn approved_request_runs_once_and_audits_both_people() {
    let fixture = approval_fixture().await;
    let without = request_fact(&fixture, "os", None).await;
    assert_eq!(
        denial_rule(&without),
        "rpcutil.policy:2: it requires the approval of one of: approvers"
    );
    let anna = fixture.organisation.caller("anna");
    let approval = sign_approval(&fixture, &draft("os"), anna.clone());
    let done = request_fact(&fixture, "os", Some(approval.clone())).await;
    assert_eq!(done.statuscode, ReplyStatus::Ok, "{}", done.statusmsg.raw());
    let again = request_fact(&fixture, "os", Some(approval)).await;
    assert!(denial_rule(&again).contains("used before"), "{}", denial_rule(&again));

    let audit = fixture.node.audit_records();
    let verdicts: Vec<&Value> = audit.iter().map(|record| &record["verdict"]).collect();
    assert_eq!(verdicts, ["denied", "executed", "denied"]);
    let executed = &audit[1];
    assert_eq!((&executed["caller"], &executed["approver"]), (&json!("rip"), &json!("anna")));
    assert_eq!(executed["approver_key"], anna.public_key().to_string());
    assert!(executed["approval"].as_str().unwrap().parse::<Uuid>().is_ok());
}

#[tokio::test]
async fn used_approval_stays_used_after_a_restart() {
    let fixture = approval_fixture().await;
    let approval = sign_approval(&fixture, &draft("os"), fixture.organisation.caller("anna"));
    assert_eq!(
        request_fact(&fixture, "os", Some(approval.clone())).await.statuscode,
        ReplyStatus::Ok
    );
    let NodeFixture { organisation, server, node, caller } = fixture;
    let signer = node.core.trust.signer.clone();
    let directory = node.stop_and_wait().await;
    let mut setup = muster_tests::fleet::NodeSetup::new(signer);
    setup.policies = Vec::new();
    let node =
        muster_tests::fleet::TestNode::start_in(directory, &organisation, &server, setup).await;
    let fixture = NodeFixture { organisation, server, node, caller };
    let again = request_fact(&fixture, "os", Some(approval)).await;
    assert!(denial_rule(&again).contains("used before"), "{}", denial_rule(&again));
}

#[tokio::test]
async fn invalid_approvals_are_refused() {
    let mut fixture = approval_fixture().await;
    let caller = |name: &str| fixture.organisation.caller(name);
    let approval_by = |signer: Signer| sign_approval(&fixture, &draft("os"), signer);
    let other_node = ProposalDraft {
        nodes: [Identity::parse("node2.example.net").unwrap()].into(),
        ..draft("os")
    };
    let foreign = Organisation::new(&["muster"]).caller("anna");
    let rip = fixture.caller.signer.clone();
    let now = muster_tests::now();
    let id = Uuid::now_v7();
    let expired = RequestProposal {
        id,
        caller: rip.identity().clone(),
        collective: draft("os").collective,
        agent: draft("os").agent,
        action: draft("os").action,
        nodes: draft("os").nodes,
        inputs: ProposalInputs::new(id, &draft("os").data, |_| false),
        issued_at: now - 7_200_000,
        expires_at: now - 3_600_000,
    };
    let expired = sign_envelope(EnvelopeKind::Proposal, &expired, &rip).unwrap();
    let expired = encode_approval(
        &offline_signer(&fixture.organisation, caller("anna")).sign_approval(&expired).unwrap(),
    );
    let for_joe =
        offline_signer(&fixture.organisation, caller("joe")).sign_proposal(&draft("os")).unwrap();
    let for_joe = encode_approval(
        &offline_signer(&fixture.organisation, caller("anna")).sign_approval(&for_joe).unwrap(),
    );
    let cases = [
        ("oneself", approval_by(rip.clone()), "cannot approve a proposal"),
        ("oneself with another key", approval_by(caller("rip")), "cannot approve a proposal"),
        (
            "another input",
            sign_approval(&fixture, &draft("customer"), caller("anna")),
            "the data differs",
        ),
        (
            "another node",
            sign_approval(&fixture, &other_node, caller("anna")),
            "the target differs",
        ),
        ("another caller", for_joe, "the caller differs"),
        ("over", expired, "the proposal expired"),
        ("foreign", approval_by(foreign), "authentication failed"),
        (
            "a node",
            approval_by(fixture.organisation.user(UserRole::Node, "anna", &[])),
            "authentication failed",
        ),
        (
            "a service",
            approval_by(fixture.organisation.service(ServiceRight::Directory, "anna")),
            "authentication failed",
        ),
        ("somebody else", approval_by(caller("eve")), "eve is not allowed to approve it"),
        ("rubbish", "r!".to_owned(), "not base64url"),
    ];
    for (case, approval, expected) in cases {
        let reply = request_fact(&fixture, "os", Some(approval)).await;
        assert!(denial_rule(&reply).contains(expected), "{case}: {}", denial_rule(&reply));
    }
    // The node uses the newest account token, which contains the revocation.
    let anna = fixture.organisation.caller("anna");
    let approval = sign_approval(&fixture, &draft("os"), anna.clone());
    let token = fixture.organisation.revoke_user(&anna);
    fixture.node.core.update_trust(&token).unwrap();
    let reply = request_fact(&fixture, "os", Some(approval)).await;
    assert!(denial_rule(&reply).contains("was revoked"), "{}", denial_rule(&reply));
    let executed = |record: &Value| record["verdict"] == "executed";
    assert!(!fixture.node.audit_records().iter().any(executed));
}

#[tokio::test]
async fn node_can_require_approval_for_dangerous_actions() {
    let fixture = NodeFixture::new(|setup| {
        setup.authority = PolicyOptions { approve_dangerous: true, ..PolicyOptions::default() };
    })
    .await;
    let data = json!({"type": "group", "name": "staff"});
    let denied = fixture.caller.call_action(NODE, "puppetral", "do", data.clone()).await.reply;
    assert!(
        denial_rule(&denied).contains("it requires the approval of a second person"),
        "{}",
        denial_rule(&denied)
    );
    let found = fixture.caller.call_action(NODE, "puppetral", "find", data.clone()).await.reply;
    assert_eq!(found.statuscode, ReplyStatus::Ok, "{}", found.statusmsg.raw());

    let draft = ProposalDraft {
        agent: SubjectName::parse("puppetral").unwrap(),
        action: SubjectName::parse("do").unwrap(),
        data: to_object(data),
        ..draft("os")
    };
    let nodes = [Identity::parse(NODE).unwrap()].into();
    let mut call = RpcCall::new("puppetral", "do", CallTarget::Nodes(nodes)).unwrap();
    call.data = draft.data.clone();
    call.approval = Some(sign_approval(&fixture, &draft, fixture.organisation.caller("anna")));
    let (mut answers, _) = fixture.caller.call(call).await;
    let reply = answers.pop_first().unwrap().1.reply;
    assert_ne!(reply.statuscode, ReplyStatus::Other, "{}", reply.statusmsg.raw());
    let audit = fixture.node.audit_records();
    let started = audit.iter().find(|record| record["verdict"] == "started").unwrap();
    assert_eq!(started["approver"], "anna");
}

/// Covers every action of the class `root_equivalent` of every built-in agent, not only those that are marked as
/// dangerous.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_root_equivalent_action_requires_approval() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker().await;
    let config = "[policy]\napprove_dangerous = true\n[plugins.catalog]\nenabled = true\n\
                  [plugins.shell]\nenabled = true\n[plugins.provision]\nenabled = true\n";
    let node = organisation.node(NODE);
    let mut daemon = DaemonHome::new(&organisation, &node, &server.url(), config).start();
    await_log(&mut daemon, "ready identity=").await;
    let caller = TestCaller::connect(&organisation, &server, organisation.caller("rip")).await;
    let mut denied = Vec::new();
    for (agent, text) in muster_ddl::BUILTIN_AGENTS {
        let document: Value = serde_json::from_str(text).unwrap();
        for action in document["actions"].as_array().unwrap() {
            if action["class"] != "root_equivalent" {
                continue;
            }
            let name = action["action"].as_str().unwrap();
            let request = Request {
                agent: SubjectName::parse(agent).unwrap(),
                action: SubjectName::parse(name).unwrap(),
                data: to_object(action["examples"][0]["input"].clone()),
                ..caller.ping_request()
            };
            let reply = caller.send(&request).await;
            // The agents of the provisioner and of the certificate authority are not offered on this node.
            if reply.statuscode == ReplyStatus::UnknownAction {
                continue;
            }
            let second = "it requires the approval of a second person";
            assert!(denial_rule(&reply).contains(second), "{agent} {name}: {reply:?}");
            denied.push(format!("{agent} {name}"));
        }
    }
    for action in [
        "shell run",
        "shell start",
        "filemgr remove",
        "package install",
        "catalog apply",
        "provision lock",
    ] {
        assert!(denied.iter().any(|name| name == action), "{action}: {denied:?}");
    }

    let data = to_object(json!({"command": ["/bin/echo", "done"]}));
    let draft = ProposalDraft {
        agent: SubjectName::parse("shell").unwrap(),
        action: SubjectName::parse("run").unwrap(),
        data: data.clone(),
        ..draft("os")
    };
    let rip = offline_signer(&organisation, caller.signer.clone());
    let anna = offline_signer(&organisation, organisation.caller("anna"));
    let approval = anna.sign_approval(&rip.sign_proposal(&draft).unwrap()).unwrap();
    let mut call = RpcCall::new("shell", "run", CallTarget::Nodes(draft.nodes.clone())).unwrap();
    (call.data, call.approval) = (data, Some(encode_approval(&approval)));
    let (mut answers, stats) = caller.call(call).await;
    let reply = answers.pop_first().unwrap_or_else(|| panic!("{stats:?}")).1.reply;
    assert_eq!(reply.statuscode, ReplyStatus::Ok, "{reply:?}");
    assert!(reply.data["stdout"].as_str().unwrap().contains("done"), "{reply:?}");
}
