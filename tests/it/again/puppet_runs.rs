//! The real Puppet and a real daemon: requests of one run are one further run, loops end, and runs without effect are only recorded.

#![expect(clippy::indexing_slicing, reason = "the structure of the documents is known")]

use muster_tests::tier::is_long;
use serde_json::{Value, json};

use super::fixture::{AgainFixture, UNLIMITED};
use crate::puppet::puppet_node::{PuppetNode, has_puppet};

/// A resource that notifies this many resources that ask for another run.
fn catalog(fixture: &AgainFixture, source: &Value, count: usize) -> Value {
    let reference = |value: &Value| {
        format!("{}[{}]", value["type"].as_str().unwrap(), value["title"].as_str().unwrap())
    };
    let mut source = source.clone();
    let titles: Vec<String> = (0..count).map(|number| format!("again-delta-{number}")).collect();
    source["parameters"]["notify"] = titles.iter().map(|title| format!("Exec[{title}]")).collect();
    let mut resources = vec![
        json!({"type": "Stage", "title": "main", "parameters": {"name": "main"}}),
        json!({"type": "Class", "title": "main", "parameters": {"name": "main"}}),
        source,
    ];
    for (number, title) in titles.iter().enumerate() {
        let command = fixture.command_words(&["--name", &number.to_string()]);
        resources.push(json!({"type": "Exec", "title": title,
            "parameters": {"command": command, "refreshonly": true, "logoutput": "on_failure"}}));
    }
    let contained = resources[2..].iter().map(reference);
    let edges = contained.map(|target| json!({"source": "Class[main]", "target": target}));
    let edges: Vec<Value> = [json!({"source": "Stage[main]", "target": "Class[main]"})]
        .into_iter()
        .chain(edges)
        .collect();
    json!({"name": "n1", "version": "1", "environment": "production", "catalog_format": 1,
        "resources": resources, "edges": edges})
}

/// A file that is created by the first run, and unchanged by the second.
fn file_of(node: &PuppetNode) -> Value {
    let title = node.path("w/flag").display().to_string();
    json!({"type": "File", "title": title, "parameters": {"ensure": "file", "content": "x\n"}})
}

async fn run_puppet(fixture: &AgainFixture, more: &[&str]) -> Value {
    let (document, exit) = fixture.rpc.run_json(&[&["puppet", "runonce"], more].concat()).await;
    assert_eq!(exit, 0, "{document:#}");
    document["nodes"][0]["data"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a1_1_and_a1_8_fifty_notifications_are_one_run_of_the_real_puppet() {
    if !has_puppet() {
        return;
    }
    let fixture = AgainFixture::start(PuppetNode::new("n1.example.net"), UNLIMITED).await;
    fixture.node.write_catalog(&catalog(&fixture, &file_of(&fixture.node), 50));
    let first = run_puppet(&fixture, &[]).await;
    let entries = fixture.await_history(1).await;
    assert_eq!((&entries[0]["end"], &entries[0]["requests"]), (&json!("ran"), &json!(50)));
    assert_eq!(entries[0]["cause_run"], first["run"], "the run that asked");
    assert_eq!(entries[0]["cause_transaction"], first["transaction_uuid"]);
    let runs = fixture.list_runs().await;
    assert_eq!(runs.len(), 2, "the first run, and one that was asked for: {runs:?}");
    assert_eq!(entries[0]["run"], json!(runs[0].0));
    fixture.await_listed("none").await;
}

/// A message is a change in each run, so each run asks for another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a1_4_a_manifest_that_always_asks_is_oscillating_after_two_runs() {
    if !has_puppet() {
        return;
    }
    let options = "[plugins.again]\nbudget = 0\n";
    let fixture = AgainFixture::start(PuppetNode::new("n1.example.net"), options).await;
    let message =
        json!({"type": "Notify", "title": "more", "parameters": {"message": "more work"}});
    fixture.node.write_catalog(&catalog(&fixture, &message, 1));
    run_puppet(&fixture, &[]).await;
    let entries = fixture.await_history(2).await;
    assert_eq!(entries[0]["detail"], "oscillating");
    assert_eq!(entries[0]["cause_run"], entries[1]["run"], "the second run asked again");
    assert_eq!(entries[1]["end"], "ran");
    let list = fixture.await_listed("none").await;
    assert_eq!(list["oscillating"], true);
    assert_eq!(fixture.list_runs().await.len(), 2);
    if !is_long() {
        return;
    }
    // Only after a reset does a request begin a run.
    let refused = fixture.call(&["request", "reason=test"]).await;
    assert_eq!(refused["state"], "suppressed", "{refused:#}");
    assert_eq!(fixture.call(&["reset"]).await["changed"], true);
    fixture.call(&["request", "reason=test"]).await;
    // The run that is begun then asks, and so does the one after it.
    fixture.await_history(6).await;
    assert_eq!(fixture.list_runs().await.len(), 4);
    assert_eq!(fixture.await_listed("none").await["oscillating"], true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a1_6_noop_by_option_by_resource_and_by_configuration_is_only_recorded() {
    if !has_puppet() {
        return;
    }
    let fixture = AgainFixture::start(PuppetNode::new("n1.example.net"), UNLIMITED).await;
    let mut document = catalog(&fixture, &file_of(&fixture.node), 1);
    fixture.node.write_catalog(&document);
    // Puppet does not call the command in noop mode; the report shows what it would have triggered.
    fixture.node.run_stock_puppet(&["--noop"]);
    assert_noop(&fixture, 1).await;
    // The run has effect, the resource has not.
    document["resources"][3]["parameters"]["noop"] = json!(true);
    document["resources"][2]["parameters"]["noop"] = json!(false);
    fixture.node.write_catalog(&document);
    fixture.node.run_stock_puppet(&[]);
    assert_noop(&fixture, 2).await;
    std::fs::remove_file(fixture.node.path("w/flag")).unwrap();
    // By Puppet's configuration, with resources that have effect nevertheless.
    document["resources"][3]["parameters"]["noop"] = json!(false);
    fixture.node.write_catalog(&document);
    std::fs::write(fixture.node.path("conf/puppet.conf"), "[main]\nnoop = true\n").unwrap();
    fixture.node.run_stock_puppet(&[]);
    assert_noop(&fixture, 3).await;
    fixture.ask(&["--noop"]);
    assert_noop(&fixture, 4).await;
    if is_long() {
        std::fs::remove_file(fixture.node.path("conf/puppet.conf")).unwrap();
        std::fs::remove_file(fixture.node.path("w/flag")).unwrap();
        // The resource has effect, the run has not: Puppet calls the command.
        fixture.node.run_stock_puppet(&["--noop"]);
        assert_noop(&fixture, 5).await;
    }
    assert_eq!(fixture.list_runs().await, [], "no run was begun");
}

async fn assert_noop(fixture: &AgainFixture, count: usize) {
    let entries = fixture.await_history(count).await;
    assert_eq!(
        (&entries[0]["end"], &entries[0]["detail"]),
        (&json!("suppressed"), &json!("noop")),
        "{entries:#?}"
    );
    fixture.await_listed("none").await;
}

/// Run by `make test-all`.
mod long {
    use super::{AgainFixture, PuppetNode, UNLIMITED, Value, catalog, file_of, has_puppet, json};

    /// The module with the real Puppet, as manifests for purpleidea's `common::again` use it. A command in place of `rpcd` adds the configuration of the test.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn manifests_of_common_again_ask_through_the_module() {
        if !has_puppet() {
            return;
        }
        let fixture = AgainFixture::start(PuppetNode::new("n1.example.net"), UNLIMITED).await;
        fixture.node.write_catalog(&json!({"name": "n1", "resources": []}));
        let words = fixture.command_words(&[]);
        let script = format!("#!/bin/sh\nexec {} \"$@\"\n", words[..3].join(" "));
        let program = fixture.node.path("w/rpcd");
        std::fs::write(&program, script).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, mode).unwrap();
        let directory = fixture.node.path("w").display().to_string();
        let manifest = format!(
            "class {{ 'muster::again': path => ['{directory}', '/bin'], when => 'gluster or x=\"it is\"', timeout => 1 }}\n\
             include common::again\n\
             common::again::delta {{ \"it's x\": delta => 'none' }}\n\
             muster::again::delta {{ 'y': delta => 1, max_delay => 1, group => 'g', reason => \"isn't ready\" }}\n\
             muster::again::delta {{ 'z': when => 'gluster', timeout => 2 }}\n\
             notify {{ 'more': notify => [Exec['again'], Exec[\"again-delta-it's x\"], Exec['again-delta-y'], Exec['again-delta-z']] }}\n"
        );
        let modules = concat!(env!("CARGO_MANIFEST_DIR"), "/../packaging/puppet");
        let output = fixture.node.apply_manifest(&manifest, modules);
        let entries = fixture.await_history(1).await;
        assert_eq!(
            (&entries[0]["end"], &entries[0]["requests"]),
            (&json!("ran"), &json!(4)),
            "{output}"
        );
        assert_eq!(entries[0]["barrier"], "barrier timed out", "{output}");
        let reasons = entries[0]["reasons"].as_array().unwrap().iter();
        let mut asked: Vec<&str> = reasons.map(|row| row["requester"].as_str().unwrap()).collect();
        asked.sort_unstable();
        assert_eq!(
            asked,
            [
                "Exec[again-delta-it's x]",
                "Exec[again-delta-y]",
                "Exec[again-delta-z]",
                "Exec[again]"
            ]
        );
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a1_1_a_run_that_was_started_outside_is_the_cause_by_its_transaction() {
        if !has_puppet() {
            return;
        }
        let fixture = AgainFixture::start(PuppetNode::new("n1.example.net"), UNLIMITED).await;
        fixture.node.write_catalog(&catalog(&fixture, &file_of(&fixture.node), 2));
        let output = fixture.node.run_stock_puppet(&[]);
        let report = std::fs::read_to_string(fixture.node.path("var/state/last_run_report.yaml"));
        let entries = fixture.await_history(1).await;
        assert_eq!(
            (&entries[0]["end"], &entries[0]["requests"]),
            (&json!("ran"), &json!(2)),
            "{output}"
        );
        assert_eq!(entries[0]["cause_run"], Value::Null);
        let cause = entries[0]["cause_transaction"].as_str().unwrap();
        // The report of the second run may have replaced the one of the first.
        let runs = fixture.list_runs().await;
        assert!(cause != runs[0].1 && !cause.is_empty(), "{cause} {runs:?}");
        let line = format!("transaction_uuid: {cause}");
        assert!(report.unwrap().contains(&line) || runs.len() == 1);
    }
}
