//! `puppetral find` of a real daemon, compared with `puppet resource` on this machine. Reads only.

#![expect(clippy::disallowed_types, reason = "runs the real Puppet")]

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use muster_tests::organisation::Organisation;
use muster_tests::poll_until_ok;
use muster_tests::rpcd::DaemonHome;
use muster_tests::tier::case_step;
use muster_tests::tools::{find_tool, is_skipped, puppet_directories};
use serde_json::{Map, Value, json};

use crate::node_fixture::TestCaller;

const NODE: &str = "node1.example.net";

/// Type, name, and the properties that differ: Puppet reports a provider for every resource, times of files, and numeric owners where the engine
/// reports names.
const RESOURCES: [(&str, &str, &[&str]); 7] = [
    ("user", "root", &["provider"]),
    ("group", "root", &["provider"]),
    ("host", "localhost", &["provider"]),
    ("mailalias", "postmaster", &["provider"]),
    ("file", "/etc/hosts", &["provider", "ctime", "mtime", "type", "owner", "group"]),
    ("package", "dpkg", &["provider"]),
    ("service", "cron", &["provider"]),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a10_5_find_equals_puppet_resource() {
    if is_skipped("puppet") {
        return;
    }
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker().await;
    let home = DaemonHome::new(&organisation, &organisation.node(NODE), &server.url(), "");
    let _daemon = home.start();
    let caller = TestCaller::connect(&organisation, &server, organisation.caller("rip")).await;
    poll_until_ok("the node replies", Duration::from_secs(20), async || {
        let call = caller.client.discover_nodes(&muster_filter::NodeFilter::default()).await;
        call.is_ok_and(|found| !found.nodes.is_empty()).then_some(()).ok_or(())
    })
    .await;
    let directories = tempfile::tempdir().unwrap();
    for (type_name, name, apart) in RESOURCES.into_iter().step_by(case_step(3)) {
        let data = json!({"type": type_name, "name": name});
        let found = caller.call_action(NODE, "puppetral", "find", data).await.reply;
        let comparable = |properties: &Value| {
            let mut properties: Map<String, Value> = properties.as_object().cloned().unwrap();
            properties.retain(|property, _| !apart.contains(&property.as_str()));
            if let Some(password) = properties.get_mut("password") {
                *password = json!(muster_ddl::REDACTED);
            }
            properties
        };
        let theirs = &ask_puppet(type_name, name, directories.path())[type_name][name];
        let ours = found.data.get("properties").unwrap_or_else(|| panic!("{found:?}"));
        assert_eq!(comparable(ours), comparable(theirs), "{type_name}");
    }
}

/// What `puppet resource` prints.
fn ask_puppet(type_name: &str, name: &str, directories: &Path) -> Value {
    let output = Command::new(find_tool("puppet"))
        .args(["resource", type_name, name, "--to_yaml"])
        .args(puppet_directories(directories))
        // Puppet asks every package manager in the path, such as pip of the user's own Python.
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_saphyr::from_slice(&output.stdout).unwrap()
}
