//! Deliveries of a stolen provisioner's key to a node that accepts almost every setting: none prevents the next start, is
//! applied in part, or is written elsewhere.

use std::os::unix::fs::symlink;
use std::time::Duration;

use muster_tests::await_state;
use muster_tests::poll_until_ok;
use serde_json::{Value, json};

use super::delivery::{DENY_SERVICE, DeliveryFixture, NODE};
use crate::enrolled_names::await_log;

/// Far more than a careful administrator accepts.
const WIDE: &str = r#"accept_settings = ["audit.*", "broker.*", "trust.*", "paths.*", "log.*", "limits.*", "facts.*", "policy.*",
    "requests.*", "metrics.*", "registration.*", "drain.*", "provisioning.*", "plugins.*", "collectives", "identity"]
accept_policies = true
"#;
const RESTART_TIMEOUT: Duration = Duration::from_mins(1);
/// Repetitions of a kill during a delivery.
const KILLS: usize = 6;

fn setting(key: &str, value: &Value) -> Value {
    json!({ "configuration": { key: value } })
}

/// The node answers: it is still there, or it is there again.
async fn await_answer(fixture: &DeliveryFixture, what: &str) {
    poll_until_ok(what, RESTART_TIMEOUT, async || {
        let ping = ["do", "rpcutil", "ping", "-I", NODE, "-t", "5"];
        let output = fixture.rpc.run(&ping).await;
        if output.status.success() { Ok(()) } else { Err(fixture.node.log()) }
    })
    .await;
}

/// Delivers, and waits until the daemon has restarted with it; `false` if nothing was changed.
async fn deliver(fixture: &mut DeliveryFixture, inputs: Value, what: &str) -> bool {
    let ready_count = |log: &str| log.matches(" ready identity=").count();
    let before = ready_count(&fixture.node.log());
    let reply = fixture.configure(inputs).await;
    if reply.pointer("/data/restarting") != Some(&json!(true)) {
        return false;
    }
    await_state(&format!("the daemon starts with {what}"), || {
        assert!(fixture.node.is_running(), "{what}: {}", fixture.node.log());
        ready_count(&fixture.node.log()) > before
    })
    .await;
    true
}

/// Whatever the node accepts, it starts with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delivery_that_would_prevent_the_next_start_is_refused() {
    let mut fixture = DeliveryFixture::start(WIDE).await;
    let home = fixture.node.home().path("");
    let file = home.join("rpcd.toml").display().to_string();
    fixture.node.home().write("empty.d/x", "", 0o644);
    let directory = home.join("empty.d").display().to_string();
    let under_file = format!("{file}/x");
    let missing = home.join("missing/x").display().to_string();
    for (key, value) in [
        ("audit.group", json!("no-such-group")),
        ("audit.mode", json!("0777")),
        ("paths.audit", json!(under_file)),
        ("paths.audit", json!(directory)),
        ("paths.audit", json!("/dev/null/audit.log")),
        ("paths.state", json!(directory)),
        ("paths.root", json!(missing)),
        ("paths.policies", json!(under_file)),
        ("paths.facts_d", json!(under_file)),
        ("paths.ddls", json!(under_file)),
        ("paths.classes", json!(directory)),
        ("identity", json!("other.example.net")),
        ("trust.account", json!(missing)),
        ("trust.account", json!("/etc/shadow")),
        ("trust.account", json!("/dev/zero")),
        ("trust.operator", json!("OX")),
        ("broker.credentials", json!(missing)),
        ("broker.credentials", json!("/dev/zero")),
        ("broker.ca", json!(missing)),
        ("broker.ca", json!(file)),
        ("broker.urls", json!([])),
        ("broker.urls", json!(["nats://user:secret@example.net"])),
        ("broker.urls", json!(["-x"])),
        ("collectives", json!([])),
        ("collectives", json!(["a.b", ">"])),
        ("metrics.listen", json!("999.1.1.1:1")),
        ("facts.facter", json!(missing)),
        ("facts.cloud_url", json!("http://example.net/")),
        ("limits.concurrency", json!(0)),
        ("limits.queue", json!(18_446_744_073_709_551_615_u64)),
        ("limits.queue", json!(-1)),
        ("limits.queue", json!(1.5)),
        ("limits.queue", json!([1, "a", true])),
        ("limits", json!(1)),
        ("log", json!("debug")),
        ("log.level.x", json!("debug")),
        ("plugins", json!([])),
        ("plugins.shell", json!(true)),
        ("plugins.shell.enabled", json!("yes")),
        ("plugins.shell.unknown", json!(1)),
        ("plugins.nosuch.option", json!(1)),
        ("plugins.provision", json!([])),
        ("plugins.provision.accept_settings", json!(["trust.*"])),
        ("plugins.directory.http.listen", json!("0.0.0.0:1")),
        ("plugins.directory.credentials", json!(missing)),
        ("plugins.ssh_ca.key", json!(missing)),
        ("plugins.puppetral.types_dir", json!(under_file)),
        ("plugins.motd.local", json!(under_file)),
        ("plugins.nrpe.schedules", json!(under_file)),
    ] {
        let before = fixture.files();
        let what = format!("{key} {value}");
        if !deliver(&mut fixture, setting(key, &value), &what).await {
            assert_eq!(fixture.files(), before, "{what}");
            continue;
        }
        await_answer(&fixture, &what).await;
        let nothing = json!({ "configuration": {} });
        assert!(deliver(&mut fixture, nothing, &what).await, "{what} is not removed");
        await_answer(&fixture, &what).await;
    }
}

/// Names, links and sizes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delivery_is_written_to_its_own_files_only() {
    let mut fixture = DeliveryFixture::start(WIDE).await;
    let policy = |name: &str, text: &str| json!({ "policies": { name: text } });
    for name in [
        "../service.policy",
        "/etc/service.policy",
        "a/b.policy",
        ".policy",
        "..policy",
        "service.policy/",
        "service.policy\n",
        "service.policy\0",
        "service.policy.policy",
        "service\u{2024}policy",
        "SERVICE.POLICY",
        "groups",
        "-x.policy",
        &format!("{}.policy", "a".repeat(300)),
    ] {
        fixture.assert_refused(policy(name, DENY_SERVICE), "is not the name of a policy").await;
    }
    for key in [
        "trust.\"operator\"",
        "trust . operator",
        "log.level\n[trust]\noperator",
        "log.level = \"debug\"\ntrust.operator",
        "[trust",
        "log.level#",
        "",
        ".",
        "log..level",
    ] {
        fixture.assert_refused(setting(key, &json!("x")), "is not a setting").await;
    }
    for value in ["a\nb", "a\rb", "a\u{85}b", "a\u{0}b", "a\u{1b}[2Jb", "a\u{7f}b"] {
        fixture.assert_refused(setting("log.level", &json!(value)), "control character").await;
    }
    let large = format!("{DENY_SERVICE}# {}\n", "x".repeat(256 * 1024));
    fixture.rpc.write("large.policy", &large);
    let argument =
        format!("policies.service.policy=@{}", fixture.rpc.path("large.policy").display());
    let before = fixture.files();
    let (reply, code) =
        fixture.rpc.run_json(&["do", "provision", "configure", &argument, "-I", NODE]).await;
    assert_ne!(code, 0, "{reply}");
    assert_eq!(fixture.files(), before);

    // Links at the names of delivered files are replaced and not followed.
    let outside = fixture.node.home().path("outside");
    std::fs::write(&outside, "kept").unwrap();
    for name in ["policies/service.policy", "conf.d/90-provisioned.toml"] {
        symlink(&outside, fixture.node.home().path(name)).unwrap();
    }
    // The link of the settings is a part of the configuration that the daemon cannot read.
    std::fs::write(&outside, "# kept\n").unwrap();
    let both = json!({ "configuration": { "log.level": "debug" },
                       "policies": { "service.policy": DENY_SERVICE } });
    let reply = fixture.configure(both).await;
    assert_eq!(reply.pointer("/data/changed"), Some(&json!(true)), "{reply}");
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "# kept\n");
    for name in ["policies/service.policy", "conf.d/90-provisioned.toml"] {
        let found = std::fs::symlink_metadata(fixture.node.home().path(name)).unwrap();
        assert!(found.is_file(), "{name}");
    }
    await_answer(&fixture, "the node answers").await;
    assert!(fixture.node.is_running());
}

/// The daemon is killed at the moment when it begins to write: each file is the old or the new one, the node starts, and the
/// repeated delivery completes it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delivery_that_a_kill_interrupts_is_completed_later() {
    let mut fixture = DeliveryFixture::start(WIDE).await;
    for round in 0..KILLS {
        let text = |name: &str| format!("policy default deny\n# {name} {round}\n");
        let names: Vec<String> = (0..8).map(|number| format!("agent{number}.policy")).collect();
        let policies: serde_json::Map<String, Value> =
            names.iter().map(|name| (name.clone(), json!(text(name)))).collect();
        let queue = 100 + round;
        let delivery = json!({ "configuration": { "limits.queue": queue }, "policies": policies });
        let inputs: Vec<String> = delivery
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let mut arguments = vec!["do", "provision", "configure", "-I", NODE, "-t", "3"];
        arguments.extend(inputs.iter().map(String::as_str));
        let mut call = fixture.rpc.prepare_command(&arguments).spawn().unwrap();
        let directory = fixture.node.home().path("policies");
        let count = || std::fs::read_dir(&directory).unwrap().count();
        let before = count();
        // In later rounds the files are there, and more staged ones appear.
        await_state("files are written", || {
            count() > before + round || call.try_wait().unwrap().is_some()
        })
        .await;
        fixture.node.kill_and_wait();
        let _ = call.wait().await;
        for name in &names {
            let found = std::fs::read_to_string(directory.join(name)).unwrap_or_default();
            let old =
                round.checked_sub(1).map(|old| format!("policy default deny\n# {name} {old}\n"));
            assert!(found == text(name) || found == old.unwrap_or_default(), "{name}: {found}");
        }
        let home = fixture.node.home().clone();
        fixture.node = home.start();
        await_log(&mut fixture.node, " ready").await;
        let reply = fixture.configure(delivery).await;
        assert_eq!(reply.get("statuscode"), Some(&json!(0)), "{reply}");
        for name in &names {
            assert_eq!(std::fs::read_to_string(directory.join(name)).unwrap(), text(name));
        }
        await_answer(&fixture, "the node answers").await;
    }
}
