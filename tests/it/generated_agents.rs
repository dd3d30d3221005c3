//! Agents that `rpc plugin generate` makes, offered by a real daemon: the action is the one that the daemon authorised, whatever the inputs say.

use std::path::Path;
use std::time::Duration;

use muster_tests::command::find_program;
use muster_tests::organisation::Organisation;
use muster_tests::poll_until_ok;
use muster_tests::rpcd::{DaemonHome, Rpcd};
use muster_wire::status::ReplyStatus;
use serde_json::{Value, json};

use crate::ask::TestCaller;

const NODE: &str = "web1.example.com";
const PATIENCE: Duration = Duration::from_secs(20);

/// How the template before `MUSTER_ACTION` found its action.
const FORMER: &str = r#"action=$(sed -n 's/.*"action": *"\([a-z0-9_]*\)".*/\1/p' "$request")"#;

/// Generates the agent `disk` with the actions `status` and `wipe` into the daemon's directory of agents; `wipe` leaves a mark.
#[expect(clippy::disallowed_types, reason = "starts the real command")]
async fn generate(home: &DaemonHome) {
    let directory = home.path("ddl");
    let arguments = ["plugin", "generate", "disk", "--lang", "sh", "--actions", "status,wipe"];
    let made = tokio::process::Command::new(find_program("rpc"))
        .args(arguments)
        .arg("--dir")
        .arg(&directory)
        .env("HOME", home.path(""))
        .output();
    let made = made.await.unwrap();
    assert!(made.status.success(), "{made:?}");
    let agent = directory.join("disk");
    let text = std::fs::read_to_string(&agent).unwrap();
    let mark = home.path("wiped");
    let wiping = format!("wipe) : > '{}'; reply", mark.display());
    home.write("ddl/disk", &text.replace("wipe) reply", &wiping), 0o755);
    let schema = directory.join("disk.json");
    let mut ddl: Value = serde_json::from_str(&std::fs::read_to_string(&schema).unwrap()).unwrap();
    for number in 0..2 {
        let inputs = ddl.pointer_mut(&format!("/actions/{number}/input")).unwrap();
        let opts = json!({"prompt": "o", "description": "o", "type": "hash", "optional": true});
        inputs.as_object_mut().unwrap().insert("opts".to_owned(), opts);
    }
    home.write("ddl/disk.json", &ddl.to_string(), 0o644);
}

async fn offered(caller: &TestCaller) {
    poll_until_ok("the agent is offered", PATIENCE, async || {
        let inventory = caller.call_action(NODE, "rpcutil", "inventory", json!({})).await;
        let agents = inventory.reply.data.get("agents").cloned();
        let agents: Vec<Value> =
            agents.and_then(|agents| agents.as_array().cloned()).unwrap_or_default();
        agents.contains(&json!("disk")).then_some(()).ok_or(agents)
    })
    .await;
}

struct Scene {
    daemon: Rpcd,
    caller: TestCaller,
    _server: muster_tests::nats_server::NatsServer,
}

impl Scene {
    async fn new(prepare: impl FnOnce(&Path)) -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker().await;
        let own = nix::unistd::User::from_uid(nix::unistd::geteuid()).unwrap().unwrap();
        let config = format!("[plugins.external.agents.disk]\nuser = \"{}\"\n", own.name);
        let home = DaemonHome::new(&organisation, &organisation.node(NODE), &server.url(), &config);
        generate(&home).await;
        prepare(&home.path("ddl/disk"));
        let policy = "policy default deny\nallow\t*\tstatus\t*\t*\n";
        home.write("policies/disk.policy", policy, 0o644);
        let daemon = home.start();
        let caller = organisation.caller("rip");
        let caller = TestCaller::connect(&organisation, &server, caller).await;
        poll_until_ok("the node answers", PATIENCE, async || {
            let call = caller.client.discover_nodes(&muster_filter::NodeFilter::default()).await;
            call.is_ok_and(|found| !found.nodes.is_empty()).then_some(()).ok_or(())
        })
        .await;
        Self { daemon, caller, _server: server }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_input_does_not_choose_the_action_of_a_generated_shell_agent() {
    let scene = Scene::new(|_| {}).await;
    let Scene { daemon, caller, .. } = &scene;
    offered(caller).await;
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
    // Configured as root, as here, it is named.
    let health = caller.call_action(NODE, "rpcutil", "diagnose", json!({})).await.reply;
    let is_told =
        health.data["findings"].to_string().contains("agent disk: its programs run as root");
    assert_eq!(is_told, nix::unistd::geteuid().is_root(), "{health:?}");
    let denied = caller.call_action(NODE, "disk", "wipe", json!({})).await.reply;
    assert_eq!(denied.statuscode, ReplyStatus::Other, "{denied:?}");
    assert!(!mark.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_of_the_former_shell_template_is_not_offered_and_named_by_the_node() {
    let scene = Scene::new(|agent| {
        let text = std::fs::read_to_string(agent).unwrap();
        std::fs::write(
            agent,
            text.replace("case ${MUSTER_ACTION", &format!("{FORMER}\n    case ${{MUSTER_ACTION")),
        )
        .unwrap();
    })
    .await;
    let caller = &scene.caller;
    let refused =
        caller.call_action(NODE, "disk", "status", json!({"opts": {"action": "wipe"}})).await.reply;
    assert_eq!(refused.statuscode, ReplyStatus::UnknownAction, "{refused:?}");
    // What `rpc doctor` shows.
    let health = caller.call_action(NODE, "rpcutil", "diagnose", json!({})).await.reply;
    let findings = health.data["findings"].to_string();
    assert!(
        findings.contains("agent disk") && findings.contains("finds its action by a text search"),
        "{findings}"
    );
}
