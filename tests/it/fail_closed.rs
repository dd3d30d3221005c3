//! Real nodes and daemons deny requests if something that their policies depend on is missing, or was not written by
//! the operator.

#![expect(clippy::disallowed_types, reason = "runs the real programs")]

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::Duration;

use muster_calls::{CallTarget, RpcCall};
use muster_tests::command::{RpcCommand, describe_output, find_program};
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::Organisation;
use muster_tests::rpcd::{DaemonHome, Rpcd};
use muster_tests::{await_state, poll_until_ok};
use muster_wire::identity::Identity;
use muster_wire::reply::Reply;
use muster_wire::status::{ReplyReason, ReplyStatus};
use muster_wire::token::ServiceRight;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::node_fixture::{NodeFixture, TestCaller};

const NODE: &str = "node1.example.net";
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// The daemon's reply to a harmless request; repeated until the daemon is connected.
async fn get_reply(caller: &TestCaller, node: &Rpcd) -> Reply {
    poll_until_ok("the daemon replies", REPLY_TIMEOUT, async || {
        let nodes = [Identity::parse(NODE).unwrap()].into();
        let mut call = RpcCall::new("rpcutil", "get_fact", CallTarget::Nodes(nodes)).unwrap();
        call.data.insert("fact".to_owned(), json!("identity"));
        let (mut answers, _) = caller.call(call).await;
        let first = answers.pop_first().map(|(_, answer)| answer.reply);
        first.ok_or_else(|| node.log())
    })
    .await
}

fn denial_rule(reply: &Reply) -> Option<&str> {
    match &reply.reason {
        Some(ReplyReason::Denied { rule }) => Some(rule),
        other => {
            assert_eq!(
                (reply.statuscode, other),
                (ReplyStatus::Ok, &None),
                "{}",
                reply.statusmsg.raw()
            );
            None
        }
    }
}

async fn restart(home: &DaemonHome, mut node: Rpcd) -> Rpcd {
    kill(Pid::from_raw(node.pid()), Signal::SIGTERM).unwrap();
    await_state("the daemon has stopped", || !node.is_running()).await;
    home.clone().start()
}

fn reload(node: &Rpcd) {
    kill(Pid::from_raw(node.pid()), Signal::SIGHUP).unwrap();
}

/// The home of a daemon, a caller, and the broker.
async fn prepare_daemon() -> (DaemonHome, TestCaller, NatsServer) {
    let (home, caller, server, _) = prepare_organisation().await;
    (home, caller, server)
}

/// The same with their organisation.
async fn prepare_organisation() -> (DaemonHome, TestCaller, NatsServer, Organisation) {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker().await;
    let home = DaemonHome::new(&organisation, &organisation.node(NODE), &server.url(), "");
    let caller = TestCaller::connect(&organisation, &server, organisation.caller("rip")).await;
    (home, caller, server, organisation)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn denial_by_a_fact_holds_with_a_broken_facts_file() {
    let (home, caller, _server) = prepare_daemon().await;
    let policy = "policy default allow\ndeny\t*\tget_fact\tenvironment=production\n\
                  deny\t*\tget_facts\t*\trole::db\n";
    home.write("policies/rpcutil.policy", policy, 0o644);
    home.write("facts.d/site.json", r#"{"environment": "production"}"#, 0o644);
    let node = home.clone().start();
    assert_eq!(denial_rule(&get_reply(&caller, &node).await), Some("rpcutil.policy:2"));

    // A running daemon keeps the last valid facts; after a restart the fact is unknown, which is not the same as
    // `false`.
    home.write("facts.d/site.json", r#"{"environment": "#, 0o644);
    reload(&node);
    await_state("the daemon has reloaded", || node.log().contains("reloaded policies")).await;
    assert_eq!(denial_rule(&get_reply(&caller, &node).await), Some("rpcutil.policy:2"));
    let node = restart(&home, node).await;
    assert_eq!(
        denial_rule(&get_reply(&caller, &node).await),
        Some("rpcutil.policy:2 (unknown: environment==production)")
    );

    home.write("facts.d/site.json", r#"{"environment": "test"}"#, 0o644);
    reload(&node);
    await_allowed(&caller, &node).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writable_policies_are_refused_at_start_and_reload() {
    let (home, caller, _server) = prepare_daemon().await;
    home.write("policies/rpcutil.policy", "policy default allow\n", 0o666);
    let node = home.clone().start();
    let advice = format!("run `chmod go-w {}`", home.path("policies/rpcutil.policy").display());
    assert_eq!(denial_rule(&get_reply(&caller, &node).await), Some("rpcutil.policy: unusable"));
    assert!(node.log().contains(&advice), "{}", node.log());

    home.write("policies/rpcutil.policy", "policy default allow\n", 0o644);
    reload(&node);
    await_allowed(&caller, &node).await;
    // A reload reads nothing of a directory that others can change: what was read before stays.
    home.write("policies/rpcutil.policy", "policy default deny\n", 0o644);
    std::fs::set_permissions(home.path("policies"), std::fs::Permissions::from_mode(0o777))
        .unwrap();
    reload(&node);
    await_state("the reload is refused", || node.log().contains("stay as they were")).await;
    assert_eq!(denial_rule(&get_reply(&caller, &node).await), None);
    let node = restart(&home, node).await;
    assert_eq!(denial_rule(&get_reply(&caller, &node).await), Some("policies: unusable"));
}

/// A typing error in a file that was just deployed must not lock out those who would mend it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reload_keeps_policies_and_check_names_the_error() {
    let (home, caller, server, organisation) = prepare_organisation().await;
    home.write("policies/rpcutil.policy", "allow\tadmins\t*\t*\n", 0o644);
    home.write("policies/groups", "admins rip\n", 0o644);
    let node = home.clone().start();
    assert_eq!(denial_rule(&get_reply(&caller, &node).await), None);
    let check = |expected: bool| {
        let mut command = Command::new(find_program("rpcd"));
        command.arg("--config").arg(home.path("rpcd.toml")).args(["--check", "--quiet"]);
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.success(), output.stdout.len()), (expected, 0), "{text}");
        text
    };
    check(true);
    for (file, text, position) in [
        ("groups", "admins rip\nadmins eve\n", "groups:2:1: group `admins` is defined twice"),
        ("rpcutil.policy", "allow rip * *\n", "rpcutil.policy:1:1: the fields are separated"),
    ] {
        let path = format!("policies/{file}");
        let good = std::fs::read_to_string(home.path(&path)).unwrap();
        home.write(&path, text, 0o644);
        let told = check(false);
        assert!(told.contains(position) && told.contains("policies have errors"), "{told}");
        reload(&node);
        await_state("the reload is refused", || node.log().contains(position)).await;
        assert_eq!(denial_rule(&get_reply(&caller, &node).await), None);
        home.write(&path, &good, 0o644);
    }
    // What is left out is named too, and is no reason to refuse a start.
    home.write("facts.d/site.json", "{", 0o644);
    assert!(check(true).contains("site.json"));
    // A start has nothing to keep.
    home.write("policies/groups", "admins rip\nadmins eve\n", 0o644);
    let node = restart(&home, node).await;
    let denied = get_reply(&caller, &node).await;
    assert_eq!(denial_rule(&denied), Some("groups:2: malformed"));
    assert!(
        denied.statusmsg.raw().contains("because a policy has an error"),
        "{}",
        denied.statusmsg.raw()
    );
    let rpc = RpcCommand::new(&server, &organisation, &organisation.caller("rip"), "");
    let output = rpc.run(&["ping"]).await;
    let text = describe_output(&output);
    assert!(text.contains(&format!("{NODE} denies the ping: groups:2: malformed")), "{text}");
    assert_eq!(output.status.code(), Some(1), "{text}");
}

async fn await_allowed(caller: &TestCaller, node: &Rpcd) {
    poll_until_ok("the request is allowed", REPLY_TIMEOUT, async || {
        match denial_rule(&get_reply(caller, node).await) {
            None => Ok(()),
            Some(rule) => Err(rule.to_owned()),
        }
    })
    .await;
}

#[tokio::test]
async fn rule_for_a_caller_does_not_match_a_service_of_that_name() {
    let policy = "allow\trip\tget_fact\t*\nallow\tservice=prov\tget_facts\t*\n";
    let fixture = NodeFixture::new(|setup| {
        setup.policies = vec![("rpcutil.policy".to_owned(), policy.to_owned())];
    })
    .await;
    let connect =
        async |signer| TestCaller::connect(&fixture.organisation, &fixture.server, signer).await;
    let service = connect(fixture.organisation.service(ServiceRight::Schedule, "rip")).await;
    let prov = connect(fixture.organisation.service(ServiceRight::Provision, "prov")).await;
    let user = connect(fixture.organisation.caller("prov")).await;
    let data = || json!({"fact": "identity"});
    let denied = "rpcutil.policy (no line matches)";
    for (caller, action, data, expected) in [
        (&fixture.caller, "get_fact", data(), None),
        (&service, "get_fact", data(), Some(denied)),
        (&prov, "get_facts", json!({"facts": "identity"}), None),
        (&user, "get_facts", json!({"facts": "identity"}), Some(denied)),
    ] {
        let reply = caller.call_action(NODE, "rpcutil", action, data).await.reply;
        assert_eq!(denial_rule(&reply), expected, "{action}");
    }
    let refused = fixture.node.audit_records();
    let denied_service = refused.iter().find(|record| record["verdict"] == "denied").unwrap();
    assert_eq!(
        (&denied_service["caller"], &denied_service["caller_role"]),
        (&json!("rip"), &json!("service"))
    );
}

#[tokio::test]
async fn file_contents_are_digests_in_audit_records_and_jobs() {
    const CONTENT: &str = "password=hushhush";
    let fixture = NodeFixture::new(|setup| {
        setup.policies = vec![("puppetral.policy".to_owned(), "policy default allow\n".to_owned())];
    })
    .await;
    let rpc = RpcCommand::new(
        &fixture.server,
        &fixture.organisation,
        &fixture.organisation.caller("rip"),
        "",
    );
    let content = format!("content={CONTENT}");
    let arguments = ["puppetral", "do", "type=file", "name=/tmp/note", &content, "-I", NODE];
    let output = rpc.run(&arguments).await;
    assert_eq!(output.status.code(), Some(0), "{}", describe_output(&output));
    let written = std::fs::read_to_string(fixture.node.root().join("tmp/note")).unwrap();
    assert_eq!(written, CONTENT);

    let audit = fixture.node.audit_records();
    let changes: Vec<_> = audit.iter().filter(|record| record["action"] == "do").collect();
    assert_eq!(changes.len(), 2, "{audit:?}");
    for record in changes {
        assert_eq!(record["data"]["content"]["bytes"], CONTENT.len(), "{record}");
        assert_eq!(record["data"]["name"], "/tmp/note");
    }
    assert!(!format!("{audit:?}").contains(CONTENT));

    // The job records that it stored a digest, and does not send the digest as content.
    let retry = rpc.run(&["do", "--retry-failed", "last"]).await;
    let jobs = rpc.run(&["job", "show", "last", "-j"]).await;
    let shown = describe_output(&jobs) + &describe_output(&retry);
    assert!(!shown.contains(CONTENT), "{shown}");
    let mut jobs_with_digest = 0;
    let mut directories = vec![rpc.home()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            let text = std::fs::read(&path).unwrap();
            let text = String::from_utf8_lossy(&text);
            assert!(!text.contains(CONTENT), "{}", path.display());
            jobs_with_digest += usize::from(text.contains("\"digested\":[\"content\"]"));
        }
    }
    assert_eq!(jobs_with_digest, 1, "no job was stored");
}

/// Regular expressions on facts and classes ignore case, as in Choria: a policy that was written for Choria denies on a real node, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn regex_of_a_choria_policy_denies_regardless_of_case() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker().await;
    let caller = TestCaller::connect(&organisation, &server, organisation.caller("rip")).await;
    for (environment, class, rule) in [
        ("production", "apache", Some("rpcutil.policy:2")),
        ("PRODUCTION", "apache", Some("rpcutil.policy:2")),
        ("preproduction", "apache", None),
        ("development", "mysql::master", Some("rpcutil.policy:3")),
    ] {
        let home = DaemonHome::new(&organisation, &organisation.node(NODE), &server.url(), "");
        let facts = json!({ "environment": environment }).to_string();
        home.write("facts.d/site.json", &facts, 0o644);
        home.write("classes.txt", &format!("{class}\n"), 0o644);
        let policy = "policy default allow\n\
            deny\t*\t*\tenvironment=/^Prod/\t*\n\
            deny\t*\t*\t*\t/^MySQL::/\n";
        home.write("policies/rpcutil.policy", policy, 0o644);
        let mut node = home.start();
        let reply = get_reply(&caller, &node).await;
        assert_eq!(denial_rule(&reply), rule, "{environment} {class}: {}", node.log());
        node.kill_and_wait();
    }
}
