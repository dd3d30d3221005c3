//! Resources on demand: the commands of the original article, each run twice, on a node with a scratch root.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use muster_tests::organisation::Organisation;
use muster_tests::poll_until_ok;
use muster_tests::rpcd::DaemonHome;
use serde_json::{Value, json};

use muster_wire::reply::Reply;
use muster_wire::status::ReplyStatus;

use crate::node_fixture::{NodeFixture, TestCaller};

const NODE: &str = "node1.example.net";

async fn apply(fixture: &NodeFixture, data: &Value) -> Reply {
    fixture.caller.call_action(NODE, "puppetral", "do", data.clone()).await.reply
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a10_4_each_command_changes_once_and_matches_its_plan() {
    let fixture = NodeFixture::new(|_| {}).await;
    std::fs::write(fixture.node.root().join("etc/aliases"), "# kept\npostmaster: root\n").unwrap();
    let lines = [
        json!({"type": "user", "name": "rip", "comment": "R.I.Pienaar", "password": "$1$xxx"}),
        json!({"type": "user", "name": "foo", "comment": "Foo User", "managehome": "true"}),
        json!({"type": "exec", "name": "/bin/date > /tmp/date", "user": "root", "timeout": "5", "creates": "/tmp/date"}),
        json!({"type": "mailalias", "name": "foo", "recipient": "rip@devco.net", "target": "/etc/aliases"}),
        json!({"type": "user", "name": "foo", "ensure": "absent"}),
    ];
    for data in &lines {
        let plan = fixture.caller.call_action(NODE, "puppetral", "plan", data.clone()).await.reply;
        let first = apply(&fixture, data).await;
        assert_eq!(
            (first.statuscode, &first.data["changed"]),
            (ReplyStatus::Ok, &json!(true)),
            "{first:?}"
        );
        let properties = |reply: &Reply| -> Vec<Value> {
            reply.data["events"]
                .as_array()
                .unwrap()
                .iter()
                .map(|event| event["property"].clone())
                .collect()
        };
        assert_eq!(properties(&plan), properties(&first), "{data}");
        assert!(!properties(&first).is_empty());
        let second = apply(&fixture, data).await;
        assert_eq!(
            (second.statuscode, &second.data["changed"]),
            (ReplyStatus::Ok, &json!(false)),
            "{second:?}"
        );
        assert_eq!(second.data["events"], json!([]), "{data}");
    }
    let read = |path: &str| std::fs::read_to_string(fixture.node.root().join(path)).unwrap();
    assert!(read("etc/passwd").contains("rip:x:") && read("etc/passwd").contains("R.I.Pienaar"));
    assert!(read("etc/shadow").contains("rip:$1$xxx:"));
    assert!(!read("etc/passwd").contains("foo:"));
    assert_eq!(read("etc/aliases"), "# kept\npostmaster: root\nfoo: rip@devco.net\n");
    assert!(!read("tmp/date").is_empty());
    let audit = serde_json::to_string(&fixture.node.audit_records()).unwrap();
    assert!(!audit.contains("$1$xxx") && audit.contains("[redacted]"), "{audit}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn package_without_a_database_fails_with_its_path() {
    let fixture = NodeFixture::new(|_| {}).await;
    let reply =
        apply(&fixture, &json!({"type": "package", "name": "unix2dos", "ensure": "present"})).await;
    assert_eq!(reply.statuscode, ReplyStatus::Failed);
    assert!(reply.statusmsg.raw().contains("/var/lib/dpkg"), "{}", reply.statusmsg.raw());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn service_is_queried_and_started_and_unknown_ones_fail() {
    let fixture = NodeFixture::new(|_| {}).await;
    let scripts = fixture.node.root().join("etc/init.d");
    std::fs::create_dir_all(&scripts).unwrap();
    let script = "#!/bin/sh\ncase $1 in start) echo > /tmp/on;; status) test -e /tmp/on;; *) exit 2;; esac\n";
    std::fs::write(scripts.join("httpd"), script).unwrap();
    std::fs::set_permissions(scripts.join("httpd"), PermissionsExt::from_mode(0o755)).unwrap();
    for (action, expected) in [
        ("status", json!({"status": "stopped"})),
        ("start", json!({"status": "running", "changed": true})),
        ("status", json!({"status": "running"})),
    ] {
        let data = json!({"service": "httpd"});
        let reply = fixture.caller.call_action(NODE, "service", action, data).await.reply;
        assert_eq!(reply.statuscode, ReplyStatus::Ok, "{reply:?}");
        assert_eq!(Value::Object(reply.data), expected, "{action}");
    }
    let data = json!({"service": "ghost"});
    let reply = fixture.caller.call_action(NODE, "service", "status", data);
    let reply = reply.await.reply;
    assert_eq!(reply.statuscode, ReplyStatus::Failed, "{reply:?}");
    assert!(reply.statusmsg.raw().contains("no such service"), "{}", reply.statusmsg.raw());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a10_9_hundred_concurrent_requests_leave_a_valid_file() {
    let fixture = NodeFixture::new(|setup| setup.limits.queue = 200).await;
    std::fs::write(fixture.node.root().join("etc/hosts"), "127.0.0.1\tlocalhost\n").unwrap();
    let requests = (0..100).map(|n| {
        let data = json!({"type": "host", "name": format!("h{n}"), "ip": format!("10.0.0.{n}")});
        let fixture = &fixture;
        async move { apply(fixture, &data).await }
    });
    for reply in futures_util::future::join_all(requests).await {
        assert_eq!(reply.statuscode, ReplyStatus::Ok, "{reply:?}");
    }
    let hosts = std::fs::read_to_string(fixture.node.root().join("etc/hosts")).unwrap();
    let lines: std::collections::BTreeSet<&str> = hosts.lines().collect();
    assert_eq!(lines.len(), 101, "{hosts}");
    assert!((0..100).all(|n| lines.contains(format!("10.0.0.{n}\th{n}").as_str())), "{hosts}");
}

/// A type whose program reports a fixed state.
const LAMP_PROGRAM: &str = "#!/bin/sh\necho '{\"state\": {\"ensure\": \"present\"}}'\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemon_finds_types_and_starts_beside_an_unusable_data_source() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker().await;
    // `conf.d/test.toml` names the directory.
    let config = "[plugins.puppetral]\ntypes_dir = \"../types.d\"\nallow_types = [\"lamp\"]\n";
    let home = DaemonHome::new(&organisation, &organisation.node(NODE), &server.url(), config);
    let description = json!({"description": "A lamp.", "program": "lamp.sh", "attributes": {
        "ensure": {"description": "Whether it is there.", "property": true, "values": ["present", "absent"]}}});
    home.write("types.d/lamp.json", &description.to_string(), 0o644);
    home.write("types.d/lamp.sh", LAMP_PROGRAM, 0o755);
    home.write("ddl/data/disk.json", "{\"metadata\": {\"name\": 7}}", 0o644);
    let _daemon = home.start();
    let caller = organisation.caller("rip");
    let caller = TestCaller::connect(&organisation, &server, caller).await;
    poll_until_ok("the node replies", Duration::from_secs(20), async || {
        let call = caller.client.discover_nodes(&muster_filter::NodeFilter::default()).await;
        call.is_ok_and(|found| !found.nodes.is_empty()).then_some(()).ok_or(())
    })
    .await;
    let data = json!({"type": "lamp", "name": "desk"});
    let found = caller.call_action(NODE, "puppetral", "find", data).await.reply;
    assert_eq!(found.statuscode, ReplyStatus::Ok, "{found:?}");
    assert!(Value::from(found.data.clone()).to_string().contains("present"), "{found:?}");
}
