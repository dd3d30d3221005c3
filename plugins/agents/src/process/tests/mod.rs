//! Tests of the data source, with simulated processes and with those of this machine.

mod agent;

use std::sync::Arc;

use muster_api::system::System;
use muster_api::system::fake::FakeSystem;
use muster_api::system::real::RealSystem;
use muster_api::testing::{TestNode, data_differences};
use muster_api::wire::status::ReplyStatus;
use muster_api::{ActionError, NoState, ValidatedDataSource};
use serde_json::{Map, Value, json};

use crate::process::data::{ProcessDataOutput, count_processes};

fn source() -> ValidatedDataSource {
    ValidatedDataSource::blocking("process", &NoState, count_processes).unwrap()
}

async fn ask(
    system: impl System + 'static,
    query: &str,
) -> Result<Map<String, Value>, ActionError> {
    let node = TestNode::named("dev1").unwrap();
    let cx = node.context("data", "process", Arc::new(system)).unwrap();
    let source = source();
    source.query_values(&cx, Some(query)).await
}

fn machine() -> FakeSystem {
    let system = FakeSystem::new();
    for (pid, name, line) in [
        (1, "systemd", "/sbin/init\0splash\0"),
        (2, "kthreadd", ""),
        (811, "nginx", "nginx: master process /usr/sbin/nginx\0"),
        (97, "nginx", "nginx: worker process\0"),
        (812, "postgres-checkp", "/usr/lib/postgresql/15/bin/postgres-checkpointer\0"),
    ] {
        system.add_file(&format!("/proc/{pid}/comm"), format!("{name}\n"));
        system.add_file(&format!("/proc/{pid}/cmdline"), line);
    }
    system.add_file("/proc/uptime", "1 1");
    system.add_directory("/proc/4711");
    system
}

#[test]
fn types_names_and_examples_equal_the_ddl() {
    assert_eq!(data_differences::<ProcessDataOutput>(&source()), Vec::<String>::new());
}

#[tokio::test]
async fn processes_are_found_by_name_file_and_command_line() {
    for (query, pids) in [
        ("nginx", json!([97, 811])),
        ("NGINX", json!([97, 811])),
        ("init", json!([1])),
        ("systemd", json!([1])),
        ("kthreadd", json!([2])),
        ("/^kth/", json!([2])),
        ("postgres-checkpointer", json!([812])),
        ("/nginx: worker/", json!([97])),
        ("/INIT SPLASH/i", json!([1])),
        ("ngin", json!([])),
    ] {
        let found = ask(machine(), query).await.unwrap();
        let count = pids.as_array().unwrap().len();
        let expected = json!({"running": count > 0, "count": count, "pids": pids});
        assert_eq!(Value::Object(found), expected, "{query}");
    }
}

#[tokio::test]
async fn invalid_pattern_is_refused_and_without_proc_there_are_no_processes() {
    let error = ask(machine(), "/(/").await.unwrap_err();
    assert_eq!(error.status, ReplyStatus::InvalidData);
    let found = ask(FakeSystem::new(), "nginx").await.unwrap();
    assert_eq!(found["count"], json!(0));
}

#[tokio::test]
async fn own_process_is_found() {
    let found = ask(RealSystem::new("/".into()), "/./").await.unwrap();
    let pids = found["pids"].as_array().unwrap();
    let beyond = found["count"].as_u64().unwrap() > 1000;
    assert!(beyond || pids.contains(&json!(std::process::id())));
}
