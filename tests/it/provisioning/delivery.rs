//! A9.10: settings and policies that a provisioner delivers, with `rpcd` as node and as provisioner.

use std::path::PathBuf;

use muster_contract::provisioner::ProvisioningState;
use muster_provisioner::record::{EventKind, NodeRecord};
use muster_tests::await_state;
use muster_tests::command::{RpcCommand, describe_output};
use muster_tests::rpcd::Rpcd;
use serde_json::{Value, json};

use super::processes::{ProcessFleet, add_record, await_done, await_record, start_leader};
use crate::enrolled_names::await_log;

pub(super) const NODE: &str = "web1.example.net";
const ACCEPTED: &str = "accept_settings = [\"log.level\", \"limits.*\", \"facts.*\", \"drain.seconds\"]\naccept_policies = true\n";
pub(super) const DENY_SERVICE: &str = "policy default deny\n";

/// A node, and a caller that calls its agent `provision` as a provisioner does.
pub(super) struct DeliveryFixture {
    fleet: ProcessFleet,
    pub(super) node: Rpcd,
    pub(super) rpc: RpcCommand,
}

impl DeliveryFixture {
    pub(super) async fn start(options: &str) -> Self {
        let fleet = ProcessFleet::start().await;
        let node = fleet.start_machine(NODE, options).await;
        let rpc = fleet.caller();
        Self { fleet, node, rpc }
    }

    /// Calls the action, and returns the node's reply.
    pub(super) async fn configure(&self, inputs: Value) -> Value {
        let mut arguments = vec!["do".to_owned(), "provision".to_owned(), "configure".to_owned()];
        let inputs = inputs.as_object().unwrap().clone();
        arguments.extend(inputs.iter().map(|(name, value)| format!("{name}={value}")));
        arguments.extend(["-I", NODE].map(str::to_owned));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let (document, _) = self.rpc.run_json(&arguments).await;
        document.pointer("/replies/0").unwrap_or_else(|| panic!("{document:#}")).clone()
    }

    /// Asserts that nothing is delivered, and that the node gives this reason.
    pub(super) async fn assert_refused(&self, inputs: Value, reason: &str) {
        let before = self.files();
        let reply = self.configure(inputs.clone()).await;
        let message = reply.to_string();
        assert_ne!(reply.get("statuscode"), Some(&json!(0)), "{inputs}: {message}");
        assert!(message.contains(reason), "{inputs}: {message}");
        assert_eq!(self.files(), before, "{inputs}");
        assert!(!self.node.log().contains("restarting"), "{inputs}");
    }

    /// Every file in the directories of settings and policies, with its content.
    pub(super) fn files(&self) -> Vec<(PathBuf, String)> {
        let mut found = Vec::new();
        for directory in ["conf.d", "policies"] {
            for entry in std::fs::read_dir(self.node.home().path(directory)).unwrap() {
                let path = entry.unwrap().path();
                let text = std::fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
        found.sort();
        found
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.node.home().path(name)).unwrap()
    }

    async fn config_item(&self, item: &str) -> Value {
        let item = format!("item={item}");
        let arguments = ["do", "rpcutil", "get_config_item", &item, "-I", NODE];
        let (document, _) = self.rpc.run_json(&arguments).await;
        document.pointer("/replies/0/data/value").unwrap_or(&Value::Null).clone()
    }

    async fn await_restarts(&self, number: usize) {
        await_state("the daemon has restarted", || {
            self.node.log().matches(" ready identity=").count() > number
        })
        .await;
    }
}

/// A9.10: a provisioner delivers its own settings and those of its helper; when the node is released, they are in
/// force. The file has sorted keys. The same delivery again changes nothing, and does not restart the daemon.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a9_10_delivered_settings_and_policies_are_in_force() {
    let fixture = DeliveryFixture::start(ACCEPTED).await;
    let service = ["do", "service", "status", "service=x", "-I", NODE];
    assert_eq!(fixture.config_item("log.level").await, json!("info"));
    // The helper gets the node's record, and returns a setting that replaces a configured one.
    let steps = r#"
[[plugins.provisioner.steps]]
name = "configure"
helper = { command = ["@/settings"], timeout = 30 }
[plugins.provisioner.steps.inputs]
configuration = { "log.level" = "warn", "limits.queue" = 7 }
policies = { "service.policy" = "policy default deny\n" }
"#;
    let host = fixture.fleet.create_host("prov1.example.net", steps);
    let helper = "#!/bin/sh\nread -r record\ncase $record in *web1.example.net*) ;; *) exit 1 ;; esac\n\
         echo '{\"configuration\": {\"log.level\": \"debug\", \"facts.refresh_seconds\": 77}}'\n";
    host.write("settings", helper, 0o755);
    let _host = start_leader(host).await;
    let store = fixture.fleet.open_record_store().await;
    add_record(&store, NODE).await;
    let record = await_done(&store, NODE).await;
    let files = record.values.get("configure").and_then(|value| value.get("files")).unwrap();
    let expected = ["policies/service.policy", "conf.d/90-provisioned.toml"]
        .map(|name| fixture.node.home().path(name));
    assert_eq!(*files, json!(expected));
    let text = fixture.read("conf.d/90-provisioned.toml");
    let lines: Vec<&str> = text.lines().skip(1).collect();
    assert_eq!(lines, ["facts.refresh_seconds = 77", "limits.queue = 7", "log.level = \"debug\""]);
    assert_eq!(fixture.read("policies/service.policy"), DENY_SERVICE);
    for (item, value) in [("log.level", json!("debug")), ("limits.queue", json!(7))] {
        assert_eq!(fixture.config_item(item).await, value);
    }
    let denied = describe_output(&fixture.rpc.run(&service).await);
    assert!(denied.contains("service.policy:1"), "{denied}");

    // Provisioned again: everything is as delivered.
    let reprovision = fixture.rpc.run(&["do", "provision", "reprovision", "-I", NODE]).await;
    assert_eq!(reprovision.status.code(), Some(0), "{}", describe_output(&reprovision));
    let is_done = |record: &NodeRecord| record.state == ProvisioningState::Done;
    store.restart_record(&record.identity, is_done).await.unwrap();
    let again = await_record(&store, NODE, "the node is done again", |found| {
        is_done(found) && found.id != record.id
    })
    .await;
    let changed = again.values.get("configure").and_then(|value| value.get("changed"));
    assert_eq!(changed, Some(&json!(false)));
    assert_eq!(fixture.node.log().matches("restarting: waiting").count(), 1);
}

/// A9.10: a helper whose answer is not JSON, or that exceeds its timeout, defers the node however few tries the step has;
/// the end of its standard error is the reason. When it works, the node is provisioned.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a9_10_unusable_helper_defers_the_node() {
    let fixture = DeliveryFixture::start(ACCEPTED).await;
    let steps = r#"
[[plugins.provisioner.steps]]
name = "configure"
tries = 1
helper = { command = ["/bin/sh", "@/settings"], timeout = 1 }
"#;
    let host = fixture.fleet.create_host("prov1.example.net", steps);
    let set_helper = |script: &str| {
        host.write("settings.new", script, 0o755);
        std::fs::rename(host.path("settings.new"), host.path("settings")).unwrap();
    };
    let store = fixture.fleet.open_record_store().await;
    set_helper("echo '{\"configuration\": '; echo 'the database is locked' >&2\n");
    let _host = start_leader(host.clone()).await;
    add_record(&store, NODE).await;
    for (script, reason) in [
        ("", "did not print a JSON object: the database is locked"),
        ("echo 'still waiting' >&2; sleep 60\n", "still waiting"),
        ("echo '{\"polices\": {}}'\n", "unknown field `polices`"),
    ] {
        if !script.is_empty() {
            set_helper(script);
        }
        let record = await_record(&store, NODE, reason, |record| {
            record.error.as_deref().is_some_and(|error| error.contains(reason))
        })
        .await;
        assert_eq!(record.state, ProvisioningState::Working);
        let last = record.history.last().unwrap();
        assert_eq!((last.what, last.step.as_str()), (EventKind::Deferred, "configure"));
    }
    // `echo` would replace the `\n`.
    let policies = json!({ "policies": { "service.policy": DENY_SERVICE } });
    set_helper(&format!("printf '%s' '{policies}'\n"));
    await_done(&store, NODE).await;
    assert_eq!(fixture.read("policies/service.policy"), DENY_SERVICE);
    assert!(!fixture.node.home().path("conf.d/90-provisioned.toml").exists());
}

/// A9.10: keys that the node does not accept, line breaks, names of policies, and everything that the daemon could not
/// use are refused with a reason. Nothing is written, and the daemon does not restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a9_10_invalid_deliveries_change_nothing() {
    let fixture = DeliveryFixture::start(ACCEPTED).await;
    fixture.node.home().write("conf.d/z-local.toml", "drain.seconds = 5\n", 0o644);
    let setting = |key: &str, value: Value| json!({ "configuration": { key: value } });
    let policy = |name: &str, text: &str| json!({ "policies": { name: text } });
    for (inputs, reason) in [
        (setting("trust.operator", json!("OX")), "does not accept the setting `trust.operator`"),
        (setting("plugins.provision.accept_policies", json!(true)), "cannot be delivered"),
        (setting("log.level", json!("info\ntrust.operator = \"OX\"")), "a line break"),
        (setting("log.level", json!("loud")), "log.level"),
        (
            setting("limits.queues", json!(7)),
            "unknown key `limits.queues` is ignored; did you mean `limits.queue`?",
        ),
        (setting("drain.seconds", json!(9)), "z-local.toml:1, which is read later"),
        (setting("a b", json!(9)), "is not a setting"),
        (policy("../x.policy", DENY_SERVICE), "is not the name of a policy"),
        (policy("X.policy", DENY_SERVICE), "is not the name of a policy"),
        (policy("a.txt", DENY_SERVICE), "is not the name of a policy"),
        (policy("service.rego", DENY_SERVICE), "no node evaluates Rego"),
        (policy("service.policy", "permit everyone\n"), "service.policy:1:1"),
        // One invalid part refuses the whole delivery.
        (
            json!({
                "configuration": { "log.level": "debug" },
                "policies": { "package.policy": DENY_SERVICE, "service.policy": "allow\n" },
            }),
            "service.policy:1",
        ),
        (
            json!({
                "configuration": { "log.level": "debug", "limits.queue": "many" },
                "policies": { "package.policy": DENY_SERVICE },
            }),
            "limits.queue",
        ),
    ] {
        fixture.assert_refused(inputs, reason).await;
    }
    // Only checked with noop.
    let before = fixture.files();
    let planned =
        fixture.configure(json!({ "configuration": { "log.level": "debug" }, "noop": true })).await;
    assert_eq!(planned.pointer("/data/changed"), Some(&json!(true)), "{planned}");
    assert_eq!(planned.pointer("/data/restarting"), Some(&json!(false)), "{planned}");
    // The commands of the guide.
    fixture.rpc.write("service.policy", DENY_SERVICE);
    let policy_file = fixture.rpc.path("service.policy");
    for input in [
        "configuration.log.level=debug".to_owned(),
        format!("policies.service.policy=@{}", policy_file.display()),
    ] {
        let arguments = ["do", "provision", "configure", &input, "noop=true", "-I", NODE];
        let (document, code) = fixture.rpc.run_json(&arguments).await;
        assert_eq!(code, 0, "{document:#}");
        assert_eq!(document.pointer("/replies/0/data/changed"), Some(&json!(true)), "{document:#}");
    }
    assert_eq!(fixture.files(), before);

    // A node accepts nothing by default.
    let fixture = DeliveryFixture::start("").await;
    let reason = "accepts no settings from a provisioner";
    fixture.assert_refused(setting("log.level", json!("debug")), reason).await;
    let reason = "accepts no policies from a provisioner";
    fixture.assert_refused(policy("service.policy", DENY_SERVICE), reason).await;
}

/// The lock of another provisioner, and an older fence, refuse a delivery; after the release, every delivery is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delivery_is_fenced_as_the_other_steps() {
    let fixture = DeliveryFixture::start(ACCEPTED).await;
    let call = async |action: &str, input: &str| {
        let output = fixture.rpc.run(&["do", "provision", action, input, "-I", NODE]).await;
        assert_eq!(output.status.code(), Some(0), "{}", describe_output(&output));
    };
    let lock = ["do", "provision", "lock", "owner=two", "fence=9", "-I", NODE];
    let locked = fixture.rpc.run(&lock).await;
    assert_eq!(locked.status.code(), Some(0), "{}", describe_output(&locked));
    let delivery = |fence: Option<u64>| {
        let mut inputs = json!({ "configuration": { "log.level": "debug" } });
        inputs.as_object_mut().unwrap().extend(fence.map(|fence| ("fence".into(), fence.into())));
        inputs
    };
    fixture.assert_refused(delivery(None), "has locked this node").await;
    fixture.assert_refused(delivery(Some(8)), "fence 8 is not valid").await;
    call("release", "fence=9").await;
    fixture.assert_refused(delivery(Some(9)), "provisioning of this node has ended").await;
}

/// The daemon is killed after the files are replaced and before it has restarted: the next start has the delivered
/// settings, and the repeated delivery changes nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delivery_survives_a_kill_before_the_restart() {
    let mut fixture = DeliveryFixture::start(ACCEPTED).await;
    // A run of Puppet that does not end delays the restart.
    fixture.node.home().write("puppet/hold_runs", "", 0o600);
    let run = ["do", "provision", "run_puppet", "-I", NODE];
    let _running = fixture.rpc.prepare_command(&run).spawn().unwrap();
    let in_progress = fixture.node.home().path("puppet/running");
    await_state("Puppet runs", || in_progress.exists()).await;
    let delivery = || json!({ "configuration": { "log.level": "debug" }, "policies": { "service.policy": DENY_SERVICE } });
    let delivered = fixture.configure(delivery()).await;
    assert_eq!(delivered.pointer("/data/restarting"), Some(&json!(true)), "{delivered}");
    await_state("the daemon restarts", || fixture.node.log().contains("restarting: waiting")).await;
    fixture.node.kill_and_wait();
    std::fs::remove_file(fixture.node.home().path("puppet/hold_runs")).unwrap();
    let home = fixture.node.home().clone();
    fixture.node = home.start();
    await_log(&mut fixture.node, " ready").await;
    assert_eq!(fixture.config_item("log.level").await, json!("debug"));
    let again = fixture.configure(delivery()).await;
    assert_eq!(again.pointer("/data/changed"), Some(&json!(false)), "{again}");
    assert_eq!(again.pointer("/data/restarting"), Some(&json!(false)), "{again}");

    // A delivery of which only the policies were replaced, as after a kill between two files, is completed.
    let policies = json!({ "service.policy": "policy default allow\n" });
    fixture.node.home().write("policies/service.policy", "policy default allow\n", 0o644);
    let completed = fixture
        .configure(json!({ "configuration": { "log.level": "trace" }, "policies": policies }))
        .await;
    let settings = fixture.node.home().path("conf.d/90-provisioned.toml");
    assert_eq!(completed.pointer("/data/files"), Some(&json!([settings])), "{completed}");
    fixture.await_restarts(1).await;
    // Without settings, the file is removed.
    let removed = fixture.configure(json!({ "configuration": {} })).await;
    assert_eq!(removed.pointer("/data/changed"), Some(&json!(true)), "{removed}");
    assert!(!settings.exists());
    fixture.await_restarts(2).await;
    assert_eq!(fixture.config_item("log.level").await, json!("info"));
}
