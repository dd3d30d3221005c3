//! Two-person approval over a real broker: a node does what two people signed, once, and nothing else.

use muster_agent::core::PolicyOptions;
use muster_client::{CallTarget, OfflineSigner, ProposalDraft, RpcCall};
use muster_tests::organisation::Organisation;
use muster_tests::rpcd::Home;
use muster_wire::approval::{ProposalInputs, RequestProposal};
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::reply::Reply;
use muster_wire::request::Request;
use muster_wire::sign::{EnvelopeKind, Signer, sign_envelope};
use muster_wire::status::{ReplyReason, ReplyStatus};
use muster_wire::token::UserRole;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::ask::{Caller, World, object};
use crate::enrolled_names::await_log;

const NODE: &str = "node1.example.net";

/// A node that lets rip read facts if one of the approvers agrees.
async fn world() -> World {
    World::new(|blueprint| {
        let policy = "policy default deny\nallow\trip\tget_fact\t*\t*\tapproved-by=approvers\nallow\t*\tping\t*\n";
        blueprint.policies = vec![
            ("rpcutil.policy".to_owned(), policy.to_owned()),
            ("groups".to_owned(), "approvers anna joe\n".to_owned()),
        ];
    })
    .await
}

fn person(organisation: &Organisation, signer: Signer) -> OfflineSigner {
    OfflineSigner { signer, trust: organisation.trust() }
}

fn draft(fact: &str) -> ProposalDraft {
    ProposalDraft {
        collective: SubjectName::parse("muster").unwrap(),
        agent: SubjectName::parse("rpcutil").unwrap(),
        action: SubjectName::parse("get_fact").unwrap(),
        nodes: [Identity::parse(NODE).unwrap()].into(),
        data: object(json!({"fact": fact})),
        secret: [].into(),
        lifetime: std::time::Duration::from_hours(1),
    }
}

/// What rip proposes, approved by this signer.
fn approval(world: &World, draft: &ProposalDraft, approver: Signer) -> String {
    let rip = person(&world.organisation, world.caller.signer.clone());
    let proposal = rip.sign_proposal(draft).unwrap();
    carried(&person(&world.organisation, approver).sign_approval(&proposal).unwrap())
}

fn carried(approval: &[u8]) -> String {
    muster_wire::approval::encode_envelope(approval)
}

async fn ask(world: &World, fact: &str, approval: Option<String>) -> Reply {
    let nodes = [Identity::parse(NODE).unwrap()].into();
    let mut call = RpcCall::new("rpcutil", "get_fact", CallTarget::Nodes(nodes)).unwrap();
    call.data = object(json!({"fact": fact}));
    call.approval = approval;
    let (mut answers, stats) = world.caller.call(call).await;
    answers.pop_first().unwrap_or_else(|| panic!("no answer: {stats:?}")).1.reply
}

/// The rule of a denial.
fn rule(reply: &Reply) -> &str {
    match &reply.reason {
        Some(ReplyReason::Denied { rule }) => rule,
        _ => panic!("not denied: {reply:?}"),
    }
}

#[tokio::test]
async fn what_two_people_signed_is_done_once_and_both_are_in_the_audit_log() {
    let world = world().await;
    let without = ask(&world, "os", None).await;
    assert_eq!(rule(&without), "rpcutil.policy:2: it requires the approval of one of: approvers");
    let anna = world.organisation.caller("anna");
    let approval = approval(&world, &draft("os"), anna.clone());
    let done = ask(&world, "os", Some(approval.clone())).await;
    assert_eq!(done.statuscode, ReplyStatus::Ok, "{}", done.statusmsg);
    let again = ask(&world, "os", Some(approval)).await;
    assert!(rule(&again).contains("used before"), "{}", rule(&again));

    let audit = world.node.audit();
    let verdicts: Vec<&Value> = audit.iter().map(|record| &record["verdict"]).collect();
    assert_eq!(verdicts, ["denied", "executed", "denied"]);
    let executed = &audit[1];
    assert_eq!((&executed["caller"], &executed["approver"]), (&json!("rip"), &json!("anna")));
    assert_eq!(executed["approver_key"], anna.public_key().to_string());
    assert!(executed["approval"].as_str().unwrap().parse::<Uuid>().is_ok());
}

#[tokio::test]
async fn an_approval_outlives_no_restart_unused_up() {
    let world = world().await;
    let approval = approval(&world, &draft("os"), world.organisation.caller("anna"));
    assert_eq!(ask(&world, "os", Some(approval.clone())).await.statuscode, ReplyStatus::Ok);
    let World { organisation, server, node, caller } = world;
    let signer = node.core.signer.clone();
    let directory = node.stopped().await;
    let mut blueprint = muster_tests::fleet::Blueprint::new(signer);
    blueprint.policies = Vec::new();
    let node =
        muster_tests::fleet::TestNode::start_in(directory, &organisation, &server, blueprint).await;
    let world = World { organisation, server, node, caller };
    let again = ask(&world, "os", Some(approval)).await;
    assert!(rule(&again).contains("used before"), "{}", rule(&again));
}

#[tokio::test]
async fn nothing_else_counts_as_an_approval() {
    let mut world = world().await;
    let caller = |name: &str| world.organisation.caller(name);
    let by = |signer: Signer| approval(&world, &draft("os"), signer);
    let elsewhere = ProposalDraft {
        nodes: [Identity::parse("node2.example.net").unwrap()].into(),
        ..draft("os")
    };
    let foreign = Organisation::new(&["muster"]).caller("anna");
    let rip = world.caller.signer.clone();
    let now = muster_tests::now();
    let id = Uuid::now_v7();
    let over = RequestProposal {
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
    let over = sign_envelope(EnvelopeKind::Proposal, &over, &rip).unwrap();
    let over = carried(&person(&world.organisation, caller("anna")).sign_approval(&over).unwrap());
    let for_joe = person(&world.organisation, caller("joe")).sign_proposal(&draft("os")).unwrap();
    let for_joe =
        carried(&person(&world.organisation, caller("anna")).sign_approval(&for_joe).unwrap());
    let table = [
        ("oneself", by(rip.clone()), "cannot approve a proposal"),
        ("oneself with another key", by(caller("rip")), "cannot approve a proposal"),
        ("another input", approval(&world, &draft("customer"), caller("anna")), "the data differs"),
        ("another node", approval(&world, &elsewhere, caller("anna")), "the target differs"),
        ("another caller", for_joe, "the caller differs"),
        ("over", over, "the proposal expired"),
        ("foreign", by(foreign), "authentication failed"),
        (
            "a node",
            by(world.organisation.user(UserRole::Node, "anna", &[])),
            "authentication failed",
        ),
        ("a service", by(world.organisation.service("anna")), "authentication failed"),
        ("somebody else", by(caller("eve")), "eve is not allowed to approve it"),
        ("rubbish", "r!".to_owned(), "not base64url"),
    ];
    for (case, approval, why) in table {
        let reply = ask(&world, "os", Some(approval)).await;
        assert!(rule(&reply).contains(why), "{case}: {}", rule(&reply));
    }
    // Revoked: the node believes its account's newest token.
    let anna = world.organisation.caller("anna");
    let approval = approval(&world, &draft("os"), anna.clone());
    let token = world.organisation.revoke(&anna);
    world.node.core.update_trust(&token).unwrap();
    let reply = ask(&world, "os", Some(approval)).await;
    assert!(rule(&reply).contains("was revoked"), "{}", rule(&reply));
    let executed = |record: &Value| record["verdict"] == "executed";
    assert!(!world.node.audit().iter().any(executed));
}

#[tokio::test]
async fn a_node_may_demand_it_for_everything_dangerous() {
    let world = World::new(|blueprint| {
        blueprint.authority = PolicyOptions { approve_dangerous: true, ..PolicyOptions::default() };
    })
    .await;
    let data = json!({"type": "group", "name": "staff"});
    let denied = world.caller.ask(NODE, "puppetral", "do", data.clone()).await.reply;
    assert!(
        rule(&denied).contains("it requires the approval of a second person"),
        "{}",
        rule(&denied)
    );
    let found = world.caller.ask(NODE, "puppetral", "find", data.clone()).await.reply;
    assert_eq!(found.statuscode, ReplyStatus::Ok, "{}", found.statusmsg);

    let draft = ProposalDraft {
        agent: SubjectName::parse("puppetral").unwrap(),
        action: SubjectName::parse("do").unwrap(),
        data: object(data),
        ..draft("os")
    };
    let nodes = [Identity::parse(NODE).unwrap()].into();
    let mut call = RpcCall::new("puppetral", "do", CallTarget::Nodes(nodes)).unwrap();
    call.data = draft.data.clone();
    call.approval = Some(approval(&world, &draft, world.organisation.caller("anna")));
    let (mut answers, _) = world.caller.call(call).await;
    let reply = answers.pop_first().unwrap().1.reply;
    assert_ne!(reply.statuscode, ReplyStatus::Other, "{}", reply.statusmsg);
    let audit = world.node.audit();
    let started = audit.iter().find(|record| record["verdict"] == "started").unwrap();
    assert_eq!(started["approver"], "anna");
}

/// Every action of the class `root_equivalent` of every built-in agent, and not only those that an author called dangerous.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_root_equivalent_action_takes_a_second_person() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.broker().await;
    let config = "[policy]\napprove_dangerous = true\n[plugins.catalog]\nenabled = true\n\
                  [plugins.shell]\nenabled = true\n[plugins.provision]\nenabled = true\n";
    let node = organisation.node(NODE);
    let mut daemon = Home::new(&organisation, &node, &server.url(), config).start();
    await_log(&mut daemon, "ready identity=").await;
    let caller = Caller::connect(&organisation, &server, organisation.caller("rip")).await;
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
                data: object(action["examples"][0]["input"].clone()),
                ..caller.request()
            };
            let reply = caller.send(&request).await;
            // The agents of the provisioner and of the certificate authority run on their own hosts.
            if reply.statuscode == ReplyStatus::UnknownAction {
                continue;
            }
            let second = "it requires the approval of a second person";
            assert!(rule(&reply).contains(second), "{agent} {name}: {reply:?}");
            denied.push(format!("{agent} {name}"));
        }
    }
    for newly in [
        "shell run",
        "shell start",
        "filemgr remove",
        "package install",
        "catalog apply",
        "provision lock",
    ] {
        assert!(denied.iter().any(|name| name == newly), "{newly}: {denied:?}");
    }

    let data = object(json!({"command": ["/bin/echo", "done"]}));
    let draft = ProposalDraft {
        agent: SubjectName::parse("shell").unwrap(),
        action: SubjectName::parse("run").unwrap(),
        data: data.clone(),
        ..draft("os")
    };
    let rip = person(&organisation, caller.signer.clone());
    let anna = person(&organisation, organisation.caller("anna"));
    let approval = anna.sign_approval(&rip.sign_proposal(&draft).unwrap()).unwrap();
    let mut call = RpcCall::new("shell", "run", CallTarget::Nodes(draft.nodes.clone())).unwrap();
    (call.data, call.approval) = (data, Some(carried(&approval)));
    let (mut answers, stats) = caller.call(call).await;
    let reply = answers.pop_first().unwrap_or_else(|| panic!("{stats:?}")).1.reply;
    assert_eq!(reply.statuscode, ReplyStatus::Ok, "{reply:?}");
    assert!(reply.data["stdout"].as_str().unwrap().contains("done"), "{reply:?}");
}
