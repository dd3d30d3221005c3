//! `rpc config`: files that are deployed to real daemons, confirmed, refused, undone because they lock out their deployer, and reverted.

use std::time::Duration;

use muster_tests::command::{RpcCommand, describe_output};
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::Organisation;
use muster_tests::poll_until_ok;
use muster_tests::published_schemas::{SchemaMode, check_schema};
use muster_tests::rpcd::{DaemonHome, Rpcd};
use serde_json::{Value, json};

/// Time for a node that was not reached to restore its files, at the shortest time for a confirmation.
const UNDO_TIMEOUT: Duration = Duration::from_mins(1);

struct ConfigFleet {
    _organisation: Organisation,
    _server: NatsServer,
    nodes: Vec<Rpcd>,
    rpc: RpcCommand,
}

impl ConfigFleet {
    async fn start(count: usize) -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker().await;
        let rpc = RpcCommand::new(&server, &organisation, &organisation.caller("rip"), "");
        let nodes = (1..=count).map(|number| {
            let signer = organisation.node(&format!("n{number}"));
            let home = DaemonHome::new(&organisation, &signer, &server.url(), "");
            home.write("policies/groups", "admins rip\n", 0o644);
            home.write("nrpe.cfg", "", 0o644);
            let (config, schedules) = (home.path("nrpe.cfg"), home.path("checks.d"));
            let nrpe = format!(
                "[plugins.nrpe]\nconfig = \"{}\"\nschedules = \"{}\"\n",
                config.display(),
                schedules.display()
            );
            home.write("conf.d/nrpe.toml", &nrpe, 0o644);
            home.start()
        });
        let fleet =
            Self { nodes: nodes.collect(), rpc, _organisation: organisation, _server: server };
        fleet.await_replies(count).await;
        fleet
    }

    async fn await_replies(&self, count: usize) {
        poll_until_ok("the nodes reply", UNDO_TIMEOUT, async || {
            let output = self.rpc.run(&["find"]).await;
            let found = String::from_utf8_lossy(&output.stdout).lines().count();
            if found == count { Ok(()) } else { Err(describe_output(&output)) }
        })
        .await;
    }

    /// A directory for deployments with these files.
    fn directory(&self, name: &str, files: &[(&str, &str)]) -> String {
        let directory = self.rpc.path(name);
        for (file, text) in files {
            let path = directory.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        directory.display().to_string()
    }

    async fn deploy(&self, directory: &str, more: &[&str]) -> (Value, i32) {
        let command = [&["config", "deploy", directory, "--yes"], more].concat();
        let (document, code) = self.rpc.run_json(&command).await;
        check_schema("muster.config.deploy.v1", &document, SchemaMode::Strict).unwrap();
        (document, code)
    }

    fn file(&self, node: usize, name: &str) -> Option<String> {
        std::fs::read_to_string(self.nodes.get(node)?.home().path(name)).ok()
    }

    /// Waits until all nodes have undone the deployment.
    async fn await_undone(&self) {
        poll_until_ok("the deployment is undone", UNDO_TIMEOUT, async || {
            let (document, _) = self.rpc.run_json(&["config", "status"]).await;
            let nodes =
                document.get("nodes").and_then(Value::as_array).cloned().unwrap_or_default();
            let is_undone =
                |node: &Value| node.get("state").is_some_and(|state| state == "reverted");
            if nodes.len() == self.nodes.len() && nodes.iter().all(is_undone) {
                Ok(())
            } else {
                Err(document)
            }
        })
        .await;
    }
}

fn results(document: &Value) -> Value {
    document["results"].as_array().unwrap().iter().map(|row| row["result"].clone()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deployed_files_are_in_force_when_the_command_ends() {
    let fleet = ConfigFleet::start(2).await;
    let files = [
        ("policies/groups", "admins rip anna\n"),
        ("policies/nettest.policy", "policy default deny\n"),
        ("facts.d/rack.json", "{\"rack\": \"r7\"}"),
    ];
    let site = fleet.directory("site", &files);
    let (document, code) = fleet.deploy(&site, &["--noop"]).await;
    assert_eq!((results(&document), code), (json!(["planned", "planned"]), 0), "{document:#}");
    assert_eq!(fleet.file(0, "facts.d/rack.json"), None);

    let (document, code) = fleet.deploy(&site, &["--canary", "1", "--batch-sleep", "0"]).await;
    assert_eq!((results(&document), code), (json!(["confirmed", "confirmed"]), 0), "{document:#}");
    assert_eq!(document["results"][0]["effect"], "reload");
    let changed = json!([
        {"name": "policies/groups", "change": "changed"},
        {"name": "policies/nettest.policy", "change": "added"},
        {"name": "facts.d/rack.json", "change": "added"},
    ]);
    assert_eq!(document["results"][0]["changes"], changed);
    let found = fleet.rpc.run(&["find", "-F", "rack=r7"]).await;
    assert_eq!(String::from_utf8_lossy(&found.stdout), "n1\nn2\n");
    let (denied, _) = fleet.rpc.run_json(&["nettest", "dns", "name=localhost", "-I", "n1"]).await;
    assert_eq!(denied["replies"][0]["reason"]["kind"], "denied", "{denied:#}");

    // Settings need a restart; the files that are left out vanish.
    let logging =
        fleet.directory("logging", &[("conf.d/20-log.toml", "[log]\nlevel = \"debug\"\n")]);
    let (document, code) = fleet.deploy(&logging, &[]).await;
    assert_eq!((results(&document), code), (json!(["confirmed", "confirmed"]), 0), "{document:#}");
    assert_eq!(document["results"][1]["effect"], "restart");
    let (level, _) =
        fleet.rpc.run_json(&["rpcutil", "get_config_item", "item=log.level", "-I", "n2"]).await;
    assert_eq!(level["replies"][0]["data"]["value"], "debug", "{level:#}");
    assert_eq!(fleet.file(1, "facts.d/rack.json"), None);
    let (document, _) = fleet.deploy(&logging, &[]).await;
    assert_eq!(results(&document), json!(["unchanged", "unchanged"]));

    let reverted = fleet.rpc.run(&["config", "revert", "-I", "n1"]).await;
    let text = describe_output(&reverted);
    assert!(reverted.status.success() && text.contains("conf.d/20-log.toml removed"), "{text}");
    assert!(fleet.file(0, "facts.d/rack.json").is_some());
    let refused = fleet.rpc.run(&["config", "revert"]).await;
    assert_eq!(refused.status.code(), Some(4), "{}", describe_output(&refused));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_the_daemon_cannot_use_are_refused_by_the_first_node() {
    let fleet = ConfigFleet::start(2).await;
    let before = fleet.file(0, "policies/groups");
    for (number, files, problem) in [
        (1, [("conf.d/20-log.toml", "[log]\nlevel = \"loud\"\n")], "log.level"),
        (2, [("facts.d/rack.json", "{\"rack\": ")], "rack.json"),
        (3, [("checks.d/x.toml", "[[checks]\n")], "x.toml"),
        (4, [("conf.d/20-me.toml", "identity = \"n9\"\n")], "`identity`"),
        (5, [("conf.d/20-me.toml", "[broker]\ncredentials = \"/nosuch\"\n")], "/nosuch"),
    ] {
        let site = fleet.directory(&format!("site{number}"), &files);
        let (document, code) = fleet.deploy(&site, &["--canary", "1"]).await;
        let expected = (json!(["failed", "not_completed"]), 2);
        assert_eq!((results(&document), code), expected, "{number}: {document:#}");
        let message = document["results"][0]["message"].as_str().unwrap();
        assert!(message.contains(problem), "{number}: {message}");
        for name in files.map(|(name, _)| name) {
            assert_eq!(fleet.file(0, name), None, "{name}");
        }
    }
    // A typing error in a policy is found before anything is sent.
    let site = fleet.directory("typo", &[("policies/groups", "admins rip\nadmins anna\n")]);
    let output = fleet.rpc.run(&["config", "deploy", &site, "--yes"]).await;
    let text = describe_output(&output);
    assert!(
        !output.status.success()
            && text.contains("groups:2:1")
            && text.contains("nothing was sent"),
        "{text}"
    );
    assert_eq!(fleet.file(0, "policies/groups"), before);
    let (document, _) = fleet.rpc.run_json(&["config", "status"]).await;
    check_schema("muster.config.status.v1", &document, SchemaMode::Strict).unwrap();
    assert_eq!(document["nodes"][0]["state"], "none", "{document:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_undo_what_locks_out_their_deployer() {
    let fleet = ConfigFleet::start(2).await;
    let policy = "policy default deny\nallow\tanna\t*\t*\t*\n";
    let site = fleet.directory("site", &[("policies/config.policy", policy)]);
    let (document, code) = fleet.deploy(&site, &["--confirm-within", "10", "--canary", "1"]).await;
    assert_eq!((results(&document), code), (json!(["unconfirmed", "not_completed"]), 2));
    let message = document["results"][0]["message"].as_str().unwrap();
    assert!(message.contains("config.policy:"), "{message}");
    let output = fleet.rpc.run(&["config", "status", "-I", "n1"]).await;
    let text = describe_output(&output);
    assert!(text.contains("warning: n1: rip is not allowed to call config status"), "{text}");
    let both = fleet.deploy(&site, &["--confirm-within", "10", "-I", "n2"]).await;
    assert_eq!(results(&both.0), json!(["unconfirmed"]), "{:#}", both.0);
    fleet.await_undone().await;
    assert_eq!([0, 1].map(|node| fleet.file(node, "policies/config.policy")), [None, None]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_come_back_from_a_broker_that_does_not_exist() {
    let mut fleet = ConfigFleet::start(2).await;
    let wrong = "[broker]\nurls = [\"nats://127.0.0.1:1\"]\n";
    let site = fleet.directory("site", &[("conf.d/90-broker.toml", wrong)]);
    let (document, code) = fleet.deploy(&site, &["--confirm-within", "10"]).await;
    assert_eq!(
        (results(&document), code),
        (json!(["unconfirmed", "unconfirmed"]), 2),
        "{document:#}"
    );
    // The second one is killed meanwhile; the next daemon finds that the time is over.
    fleet.nodes[1].kill_and_wait();
    let home = fleet.nodes[1].home().clone();
    fleet.nodes[1] = home.start();
    fleet.await_undone().await;
    assert_eq!([0, 1].map(|node| fleet.file(node, "conf.d/90-broker.toml")), [None, None]);
    let (document, _) = fleet.rpc.run_json(&["config", "status"]).await;
    assert_eq!(document["nodes"][0]["reason"], "it was not confirmed within 10 s");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_say_who_may_run_an_action() {
    let fleet = ConfigFleet::start(1).await;
    let policy = "policy default deny\nallow\tadmins\t*\track=r7\t*\n";
    let files = [
        ("policies/groups", "admins rip anna\n"),
        ("policies/service.policy", policy),
        ("facts.d/rack.json", "{\"rack\": \"r7\"}"),
    ];
    let site = fleet.directory("site", &files);
    let (document, code) = fleet.deploy(&site, &[]).await;
    assert_eq!(code, 0, "{document:#}");
    let (document, _) = fleet.rpc.run_json(&["policy", "who", "service.restart"]).await;
    check_schema("muster.policy.who.v1", &document, SchemaMode::Strict).unwrap();
    let rows = document["rows"].as_array().unwrap();
    let told: Vec<Value> =
        rows.iter().map(|row| json!([row["node"], row["caller"], row["allowed"]])).collect();
    let expected = json!([
        ["n1", "anna", true],
        ["n1", "rip", true],
        ["n1", "*", false],
        ["n1", "service=*", false],
    ]);
    assert_eq!(json!(told), expected, "{document:#}");
    assert_eq!(rows[0]["rule"], "service.policy:2");
    let output = fleet.rpc.run(&["policy", "who", "service.restrt"]).await;
    let text = describe_output(&output);
    assert!(!output.status.success() && text.contains("restart"), "{text}");
}
