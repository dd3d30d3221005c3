//! Manifests of a real Puppet Server that ask for another run: on ten machines they get the runs they need, and a loop is stopped.

#![expect(clippy::indexing_slicing, reason = "documents are indexed; tests end by panic")]

use std::path::Path;

use futures_util::future::join_all;
use muster_tests::poll_until_ok;
use muster_tests::puppetserver::PuppetServer;
use serde_json::{Value, json};

use crate::machines::RECOVERY_TIMEOUT;
use crate::machines::fleet::MachineFleet;
use crate::machines::nodes::{MachineNodes, node_name};
use crate::operator_rotation::copy_directory;

/// Short delays. Without the fleet's budget, in which a node has one place per minute.
pub(super) const CONFIGURATION: &str = "[plugins.again]\nspread = 1\nbackoff = 4\nbudget = 0\n";

/// The resources are applied in the opposite order of their need, so each run can do one step. The last one asks for nothing.
const CONVERGING: &str = r"
include muster::again
Exec { path => '/usr/bin:/bin' }
exec { 'count': command => 'echo run >>/var/steps', provider => shell }
-> exec { 'third': command => 'touch /var/third', creates => '/var/third', onlyif => 'test -e /var/second' }
-> exec { 'second': command => 'touch /var/second', creates => '/var/second', onlyif => 'test -e /var/first', notify => Exec['again'] }
-> exec { 'first': command => 'touch /var/first', creates => '/var/first', notify => Exec['again'] }
";

/// Each run makes the same change, and asks for another one.
const OSCILLATING: &str = r"
include muster::again
exec { 'flip': command => 'echo run >>/var/flips', provider => shell, notify => Exec['again'] }
";

/// Makes the module available, and replaces the manifest.
fn write_manifest(server: &PuppetServer, manifest: &str) {
    let module = server.path("code/environments/production/modules/muster");
    if !module.exists() {
        std::fs::create_dir_all(module.parent().unwrap()).unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/puppet/muster");
        copy_directory(&source, &module);
    }
    server.write_manifest(manifest);
}

/// The number of lines of a file on each machine.
async fn count_lines(machines: &MachineFleet, path: &str) -> Vec<usize> {
    let script = format!("wc -l <{path}");
    let texts =
        join_all(machines.names().iter().map(|machine| machines.sh(machine, &script))).await;
    texts.iter().map(|text| text.trim().parse().unwrap()).collect()
}

async fn run_once(nodes: &MachineNodes, filter: &[&str]) {
    let words = ["puppet", "runall", "4", "--yes", "--force"];
    let (document, code) = nodes.operator.run_json(&[&words, filter].concat()).await;
    assert_eq!(code, 0, "{document:#}");
}

/// Waits until each node has this many entries in its history, and no run is asked for.
async fn await_history(nodes: &MachineNodes, entries: usize, filter: &[&str]) -> Vec<Value> {
    poll_until_ok("the runs that were asked for have ended", RECOVERY_TIMEOUT * 3, async || {
        let list = [&["again", "list", "--all"], filter].concat();
        let history = [&["again", "history"], filter].concat();
        let (list, _) = nodes.operator.run_json(&list).await;
        let (history, _) = nodes.operator.run_json(&history).await;
        let is_idle = list["nodes"]
            .as_array()
            .is_some_and(|nodes| nodes.iter().all(|node| node["state"] == "none"));
        let found = history["entries"].as_array().cloned().unwrap_or_default();
        if is_idle && found.len() == entries { Ok(found) } else { Err(format!("{list} {history}")) }
    })
    .await
}

/// Ten machines converge in three runs, of which two are asked for by runs, and no fourth follows.
pub(super) async fn machines_get_the_runs_that_they_need(
    nodes: &MachineNodes,
    server: &PuppetServer,
) {
    let machines = &nodes.machines;
    let count = machines.names().len();
    write_manifest(server, CONVERGING);
    run_once(nodes, &[]).await;
    let entries = await_history(nodes, 2 * count, &[]).await;
    for machine in machines.names() {
        let own = |entry: &&Value| entry["node"] == node_name(machine).as_str();
        let own: Vec<&Value> = entries.iter().filter(own).collect();
        assert!(own.iter().all(|entry| entry["end"] == "ran"), "{own:#?}");
        // The newest entry is the first: its cause is the run that the other one began.
        assert_eq!(own[0]["cause_run"], own[1]["run"], "{own:#?}");
        machines.sh(machine, "test -e /var/third").await;
    }
    assert_eq!(count_lines(machines, "/var/steps").await, vec![3; count]);
}

/// A manifest that makes the same change in each run is stopped after two runs, and named.
pub(super) async fn loop_is_stopped_and_named(nodes: &MachineNodes, server: &PuppetServer) {
    let name = node_name("m2");
    let filter = ["-I", name.as_str()];
    let (reset, code) = nodes.operator.run_json(&["again", "reset", "-I", name.as_str()]).await;
    assert_eq!(code, 0, "{reset:#}");
    write_manifest(server, OSCILLATING);
    run_once(nodes, &filter).await;
    // Two entries are of the other manifest.
    let entries = await_history(nodes, 4, &filter).await;
    assert_eq!(entries[0]["detail"], "oscillating", "{entries:#?}");
    assert_eq!(nodes.machines.sh("m2", "wc -l </var/flips").await.trim(), "2");
    let (list, _) = nodes.operator.run_json(&["again", "list"]).await;
    let named: Vec<&Value> = list["nodes"].as_array().unwrap().iter().collect();
    assert_eq!(named.len(), 1, "{list:#}");
    assert_eq!((&named[0]["node"], &named[0]["oscillating"]), (&json!(name), &json!(true)));
}
