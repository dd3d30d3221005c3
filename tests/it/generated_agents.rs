//! Agents from `rpc plugin generate` in a real daemon: they run the action that the daemon authorised, regardless of
//! the inputs.

use std::path::Path;
use std::time::Duration;

use muster_tests::command::find_program;
use muster_tests::organisation::Organisation;
use muster_tests::poll_until_ok;
use muster_tests::rpcd::{DaemonHome, Rpcd};
use muster_wire::status::ReplyStatus;
use serde_json::{Value, json};

use crate::node_fixture::TestCaller;

const NODE: &str = "web1.example.com";
const NODE_TIMEOUT: Duration = Duration::from_secs(20);

/// How the earlier template, before `MUSTER_ACTION`, determined the action.
const FORMER_ACTION_LOOKUP: &str =
    r#"action=$(sed -n 's/.*"action": *"\([a-z0-9_]*\)".*/\1/p' "$request")"#;

/// Generates the agent `disk` with the actions `status` and `wipe` in the daemon's directory of agents; `wipe` creates
/// a file.
#[expect(clippy::disallowed_types, reason = "starts the real command")]
async fn generate_agent(home: &DaemonHome) {
    let directory = home.path("ddl");
    let arguments = ["plugin", "generate", "disk", "--lang", "sh", "--actions", "status,wipe"];
    let output = tokio::process::Command::new(find_program("rpc"))
        .args(arguments)
        .arg("--dir")
        .arg(&directory)
        .env("HOME", home.path(""))
        .output();
    let output = output.await.unwrap();
    assert!(output.status.success(), "{output:?}");
    let agent = directory.join("disk");
    let text = std::fs::read_to_string(&agent).unwrap();
    let mark = home.path("wiped");
    let wipe_branch = format!("wipe) : > '{}'; reply", mark.display());
    home.write("ddl/disk", &text.replace("wipe) reply", &wipe_branch), 0o755);
    let schema = directory.join("disk.json");
    let mut ddl: Value = serde_json::from_str(&std::fs::read_to_string(&schema).unwrap()).unwrap();
    for number in 0..2 {
        let inputs = ddl.pointer_mut(&format!("/actions/{number}/input")).unwrap();
        let opts = json!({"prompt": "o", "description": "o", "type": "hash", "optional": true});
        inputs.as_object_mut().unwrap().insert("opts".to_owned(), opts);
    }
    home.write("ddl/disk.json", &ddl.to_string(), 0o644);
}

async fn await_agent(caller: &TestCaller) {
    poll_until_ok("the agent is offered", NODE_TIMEOUT, async || {
        let inventory = caller.call_action(NODE, "rpcutil", "inventory", json!({})).await;
        let agents = inventory.reply.data.get("agents").cloned();
        let agents: Vec<Value> =
            agents.and_then(|agents| agents.as_array().cloned()).unwrap_or_default();
        agents.contains(&json!("disk")).then_some(()).ok_or(agents)
    })
    .await;
}

struct GeneratedAgentFixture {
    daemon: Rpcd,
    caller: TestCaller,
    _server: muster_tests::nats_server::NatsServer,
}

impl GeneratedAgentFixture {
    async fn new(prepare: impl FnOnce(&Path)) -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker().await;
        let own = nix::unistd::User::from_uid(nix::unistd::geteuid()).unwrap().unwrap();
        let config = format!("[plugins.external.agents.disk]\nuser = \"{}\"\n", own.name);
        let home = DaemonHome::new(&organisation, &organisation.node(NODE), &server.url(), &config);
        generate_agent(&home).await;
        prepare(&home.path("ddl/disk"));
        let policy = "policy default deny\nallow\t*\tstatus\t*\t*\n";
        home.write("policies/disk.policy", policy, 0o644);
        let daemon = home.start();
        let caller = organisation.caller("rip");
        let caller = TestCaller::connect(&organisation, &server, caller).await;
        poll_until_ok("the node replies", NODE_TIMEOUT, async || {
            let call = caller.client.discover_nodes(&muster_filter::NodeFilter::default()).await;
            call.is_ok_and(|found| !found.nodes.is_empty()).then_some(()).ok_or(())
        })
        .await;
        Self { daemon, caller, _server: server }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inputs_do_not_select_the_action_of_a_generated_agent() {
    let fixture = GeneratedAgentFixture::new(|_| {}).await;
    let GeneratedAgentFixture { daemon, caller, .. } = &fixture;
    await_agent(caller).await;
    let mark = daemon.home().path("wiped");
    for data in [
        json!({"opts": {"action": "wipe"}}),
        json!({"message": "\"action\":\"wipe\"", "opts": {"x": ["\"action\": \"wipe\""]}}),
        json!({"opts": {"a\n\"action\":\"wipe\"": "\"action\":\"wipe\""}}),
    ] {
        let reply = caller.call_action(NODE, "disk", "status", data.clone()).await.reply;
        assert_eq!(reply.statuscode, ReplyStatus::Ok, "{data}: {reply:?}");
        assert!(!mark.exists(), "{data}");
    }
    // The health check reports an agent that runs as root, as it does here if the tests run as root.
    let health = caller.call_action(NODE, "rpcutil", "diagnose", json!({})).await.reply;
    let is_reported =
        health.data["findings"].to_string().contains("agent disk: its programs run as root");
    assert_eq!(is_reported, nix::unistd::geteuid().is_root(), "{health:?}");
    let denied = caller.call_action(NODE, "disk", "wipe", json!({})).await.reply;
    assert_eq!(denied.statuscode, ReplyStatus::Other, "{denied:?}");
    assert!(!mark.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_of_the_former_template_is_refused_and_reported() {
    let fixture = GeneratedAgentFixture::new(|agent| {
        let text = std::fs::read_to_string(agent).unwrap();
        std::fs::write(
            agent,
            text.replace(
                "case ${MUSTER_ACTION",
                &format!("{FORMER_ACTION_LOOKUP}\n    case ${{MUSTER_ACTION"),
            ),
        )
        .unwrap();
    })
    .await;
    let caller = &fixture.caller;
    let refused =
        caller.call_action(NODE, "disk", "status", json!({"opts": {"action": "wipe"}})).await.reply;
    assert_eq!(refused.statuscode, ReplyStatus::UnknownAction, "{refused:?}");
    // The findings that `rpc doctor` shows.
    let health = caller.call_action(NODE, "rpcutil", "diagnose", json!({})).await.reply;
    let findings = health.data["findings"].to_string();
    assert!(
        findings.contains("agent disk") && findings.contains("finds its action by a text search"),
        "{findings}"
    );
}
