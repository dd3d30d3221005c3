//! Tests of the data source `puppet`, with files in memory.

use std::sync::Arc;

use muster_api::ActionError;
use muster_api::NodePlugin as _;
use muster_api::system::System;
use muster_api::system::fake::FakeSystem;
use muster_api::testing::TestNode;
use muster_api::wire::status::ReplyStatus;
use serde_json::{Map, Value, json};

use super::plugin;

async fn query(system: &Arc<dyn System>) -> Result<Map<String, Value>, ActionError> {
    let node = TestNode::named("dev1.example.net").unwrap();
    let cx = node.context("rpcutil", "get_data", Arc::clone(system)).unwrap();
    let source = plugin().data_sources().unwrap().remove(0);
    source.query_values(&cx, None).await
}

async fn data(system: &Arc<dyn System>) -> Map<String, Value> {
    query(system).await.unwrap()
}

#[tokio::test]
async fn state_is_derived_from_the_files_of_puppet() {
    let system = FakeSystem::new();
    let shared: Arc<dyn System> = Arc::new(system.clone());
    let none = query(&shared).await;
    assert_eq!(plugin().state_sources().remove(0).read_state(&system), None);
    assert_eq!(none.unwrap_err().status, ReplyStatus::Failed);

    system.add_directory("/var/cache/puppet/state");
    let idle = data(&shared).await;
    let told = |values: &Map<String, Value>, names: &[&str]| -> Vec<Value> {
        names.iter().map(|name| values[*name].clone()).collect()
    };
    let state = ["enabled", "applying", "daemon_present", "idling", "status", "lastrun", "failed"];
    assert_eq!(
        told(&idle, &state),
        [
            json!(true),
            json!(false),
            json!(false),
            json!(false),
            json!("stopped"),
            Value::Null,
            Value::Null
        ]
    );

    // A lock is ignored if its process does not exist, or is a Ruby that does not run Puppet.
    system.add_file("/var/cache/puppet/state/agent_catalog_run.lock", "4711");
    assert_eq!(data(&shared).await["applying"], json!(false));
    system.add_file("/proc/4711/comm", "ruby\n");
    system.add_file("/proc/4711/cmdline", "ruby\0irb\0");
    assert_eq!(data(&shared).await["applying"], json!(false));
    system.add_file("/proc/4711/cmdline", "/usr/bin/ruby\0/usr/bin/puppet\0agent\0");
    system.add_file("/run/puppet/agent.pid", "12\n");
    system.add_file("/proc/12/comm", "puppet\n");
    let busy = data(&shared).await;
    assert_eq!(
        told(&busy, &state[..5]),
        [json!(true), json!(true), json!(true), json!(false), json!("applying a catalog")]
    );

    system.add_file(
        "/var/cache/puppet/state/agent_disabled.lock",
        "{\"disabled_message\":\"hand hacking\"}",
    );
    let summary = "---\nversion:\n  config: 1699999990\n  puppet: 7.23.0\nresources:\n  changed: 2\n  \
        corrective_change: 1\n  failed: 0\n  failed_to_restart: 0\n  out_of_sync: 3\n  total: 120\ntime:\n  \
        config_retrieval: 0.5\n  total: 12.5\n  last_run: 1699999400\nchanges:\n  total: 2\nevents:\n  failure: 0\n  total: 2\n";
    system.add_file("/var/cache/puppet/public/last_run_summary.yaml", summary);
    let source = plugin().state_sources().remove(0);
    let state = Value::Object(source.read_state(&system).unwrap());
    let expected = json!({
        "disabled": true, "disable_message": "hand hacking", "applying": true, "daemon_present": true,
        "status": "disabled", "engine": "puppet",
        "last_run": {
            "class": "changed", "time": 1_699_999_400, "ended": 1_699_999_400_000_u64, "failed": 0, "noop": 0, "total": 120, "changed": 2,
            "out_of_sync": 3, "corrected": 1, "config_version": "1699999990",
        },
    });
    assert_eq!(state, expected);
    let off = data(&shared).await;
    assert_eq!(
        told(&off, &["enabled", "disable_message", "status", "lastrun", "since_lastrun", "failed"]),
        [
            json!(false),
            json!("hand hacking"),
            json!("disabled"),
            json!(1_699_999_400),
            json!(600),
            json!(false)
        ]
    );
    assert_eq!(
        told(
            &off,
            &[
                "total_resources",
                "changed_resources",
                "corrected_resources",
                "config_version",
                "total_time"
            ]
        ),
        [json!(120), json!(2), json!(1), json!("1699999990"), json!(12.5)]
    );
    // A run without a catalog has failed although it counts no failure; an old or incomplete summary is ignored.
    let failed = "---\nversion:\n  config:\n  puppet: 7.23.0\nresources:\n  failed: 0\n  total: 0\ntime:\n  last_run: 1\n";
    for (text, failed) in [(failed, json!(true)), ("false", Value::Null), ("--- [", Value::Null)] {
        system.add_file("/var/cache/puppet/public/last_run_summary.yaml", text);
        assert_eq!(data(&shared).await["failed"], failed, "{text}");
    }
}
