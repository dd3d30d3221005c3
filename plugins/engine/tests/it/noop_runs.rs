//! A catalog in noop mode on a machine where nothing of it exists yet: each resource is a pending change and none fails, as with Puppet.

use muster_engine::catalog::Catalog;
use muster_engine::run::{RunOptions, apply_catalog};
use muster_system::StateDir;
use serde_json::{Value as Json, json};

use crate::support::Scratch;

/// `REFERENCE PROPERTY STATUS MESSAGE` of each event of the run.
fn events_of(scratch: &Scratch, catalog: &Json, noop: bool) -> Vec<String> {
    let state = tempfile::tempdir().unwrap();
    let state = StateDir::open(state.path()).unwrap();
    let catalog = Catalog::parse(catalog.to_string().as_bytes(), "dev1").unwrap();
    let options = RunOptions { noop, ..RunOptions::default() };
    let report = apply_catalog(&scratch.engine, &catalog, &state, &options, &mut |_| {}).unwrap();
    let mut events = Vec::new();
    for status in report.resource_statuses {
        for event in status.events {
            let property = event.property.unwrap_or_default();
            events.push(format!("{property} {} {}", event.status, event.message));
        }
    }
    events
}

#[test]
fn catalog_on_a_fresh_machine_is_pending_and_does_not_fail() {
    let scratch = Scratch::new();
    scratch.write("/var/lib/dpkg/status", "");
    scratch.write("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\n");
    scratch.write("/etc/group", "root:x:0:\n");
    scratch.write("/etc/shadow", "root:*:19000:0:99999:7:::\n");
    let catalog = json!([
        {"type": "group", "title": "appgroup"},
        {"type": "user", "title": "appuser", "groups": ["appgroup"], "managehome": true},
        {"type": "file", "title": "/etc/app", "ensure": "directory", "owner": "appuser"},
        {"type": "file", "title": "/etc/app/app.conf", "content": "x\n", "owner": "appuser", "group": "appgroup", "notify": "Service[app]"},
        {"type": "ssh_authorized_key", "title": "k", "user": "appuser", "key": "AAAAC3NzaC1lZDI1NTE5"},
        {"type": "service", "title": "app", "ensure": "running", "enable": true},
        {"type": "cron", "title": "job", "user": "appuser", "command": "/bin/true", "minute": 5},
        {"type": "host", "title": "appdb", "ip": "10.1.1.1"},
        {"type": "exec", "title": "/usr/sbin/nosuchtool", "creates": "/var/lib/app/x", "cwd": "/var/lib/app", "user": "appuser"},
    ]);
    let events = events_of(&scratch, &catalog, true);
    assert!(events.iter().all(|event| event.contains(" noop ")), "{events:#?}");
    for expected in [
        "ensure noop current_value 'stopped', should be 'running' (noop)",
        "ensure noop current_value 'absent', should be 'directory' (noop)",
        "returns noop current_value 'notrun', should be ['0'] (noop)",
    ] {
        assert!(events.iter().any(|event| event == expected), "{expected}: {events:#?}");
    }
    // Without noop, the missing service fails with its name.
    let service = json!([{"type": "service", "title": "app", "ensure": "running"}]);
    let events = events_of(&scratch, &service, false);
    assert!(events.iter().any(|event| event.contains("there is no such service")), "{events:#?}");
}

/// A node block that only includes classes has no members, and neither has an empty class.
#[test]
fn containers_without_members_are_no_resources() {
    let scratch = Scratch::new();
    let resource = |kind: &str, title: &str, of: &str| json!({"type": kind, "title": title, "kind": of, "tags": []});
    let mut file = resource("File", "/srv/a", "compilable_type");
    file["parameters"] = json!({"ensure": "file", "content": "a"});
    let catalog = json!({
        "catalog_format": 2, "name": "dev1", "environment": "production",
        "resources": [
            resource("Stage", "main", "compilable_type"), resource("Class", "main", "unknown"), resource("Node", "default", "unknown"),
            resource("Class", "Empty", "class"), resource("Wrapper", "empty", "unknown"), file,
        ],
        "edges": [
            {"source": "Stage[main]", "target": "Class[main]"}, {"source": "Class[main]", "target": "Node[default]"},
            {"source": "Stage[main]", "target": "Class[Empty]"}, {"source": "Class[Empty]", "target": "Wrapper[empty]"},
        ],
    });
    scratch.write("/srv/b", "");
    let events = events_of(&scratch, &catalog, false);
    assert_eq!(events.len(), 1, "{events:?}");
    // Without kinds, a type that is not known is an error: it may be misspelt.
    let misspelt = json!({"name": "dev1", "resources": [{"type": "Flie", "title": "/srv/a"}]});
    let catalog = Catalog::parse(misspelt.to_string().as_bytes(), "dev1").unwrap();
    let state = tempfile::tempdir().unwrap();
    let state = StateDir::open(state.path()).unwrap();
    let options = RunOptions::default();
    apply_catalog(&scratch.engine, &catalog, &state, &options, &mut |_| {}).unwrap_err();
}
