//! Tests of the agent through its handlers, with the real processes of this machine.

use std::sync::Arc;
use std::time::Duration;

use muster_api::system::real::RealSystem;
use muster_api::system::{Command, ProcessId, ProcessSpool, Signal, System};
use muster_api::testing::TestNode;
use muster_api::wire::status::ReplyStatus;
use muster_api::{ActionError, StatelessPlugin as _};
use serde_json::{Value, json};

use crate::process::ProcessPlugin;

fn host() -> RealSystem {
    RealSystem::new("/".into())
}

async fn ask(action: &str, input: Value) -> Result<Value, ActionError> {
    let agent = ProcessPlugin::create_agent().unwrap();
    let declared = agent.ddl().find_action(action).unwrap();
    let input = declared.validate_input(input.as_object().unwrap()).unwrap();
    let node = TestNode::named("dev1.example.net").unwrap();
    let cx = node.context("process", action, Arc::new(host())).unwrap();
    let output = agent.find_handler(action).unwrap().call(&cx, input).await?;
    Ok(Value::Object(declared.validate_output(&output).unwrap()))
}

/// Starts a process with a unique command line; its exit status is written to the directory.
fn sleeper(mark: &str) -> (ProcessId, tempfile::TempDir) {
    let spool = tempfile::tempdir().unwrap();
    let kept = ProcessSpool { directory: spool.path().to_owned(), limit: 1000 };
    let words = ["/bin/sh", "-c", "sleep 600 & wait", mark];
    let process = host().start_detached(&Command::new(words), &kept).unwrap();
    (process, spool)
}

/// Waits for the shell with the mark. The command line of its keeper contains the mark too, so the pattern is anchored.
async fn listed(mark: &str) -> Vec<Value> {
    let end = std::time::Instant::now() + Duration::from_mins(1);
    loop {
        let input = json!({"pattern": format!("/^.bin.sh -c sleep 600 & wait {mark}$/")});
        let found = ask("list", input).await.unwrap();
        let rows = found["processes"].as_array().unwrap().clone();
        // Between fork and exec, the child `sleep` has the command line of its parent.
        if rows.len() == 1 {
            return rows;
        }
        assert!(std::time::Instant::now() < end, "{mark}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn process_is_listed_planned_and_signalled() {
    let mark = format!("mark-of-{}", std::process::id());
    let (keeper, spool) = sleeper(&mark);
    let rows = listed(&mark).await;
    assert_eq!(rows[0]["parent"], json!(keeper.pid));
    let pid = rows[0]["pid"].as_u64().unwrap();
    let input = json!({"pid": pid, "plan": true});
    let planned = ask("kill", input).await.unwrap();
    assert_eq!(planned, json!({"matched": 1, "signalled": 0, "pids": [pid]}));
    let other = json!({"pid": pid, "user": "no-such-user"});
    assert_eq!(ask("kill", other).await.unwrap()["matched"], json!(0));
    let killed = ask("kill", json!({"pid": pid, "signal": "kill"})).await.unwrap();
    assert_eq!(killed["signalled"], json!(1));
    let exit = spool.path().join(ProcessSpool::EXIT);
    let end = std::time::Instant::now() + Duration::from_mins(1);
    while !exit.exists() {
        assert!(std::time::Instant::now() < end);
        tokio::task::yield_now().await;
    }
    assert_eq!(std::fs::read_to_string(exit).unwrap(), "137\n");
    let _ = host().signal_process(&keeper, Signal::SIGKILL, true);
}

#[tokio::test]
async fn first_process_and_daemon_cannot_be_signalled() {
    for pid in [1, std::process::id()] {
        let error = ask("kill", json!({ "pid": pid })).await.unwrap_err();
        assert_eq!(error.status, ReplyStatus::InvalidData, "{pid}");
    }
    for input in [
        json!({}),
        json!({"pid": 1, "pattern": "sh"}),
        json!({"pattern": "sh", "signal": "NONSENSE"}),
    ] {
        let error = ask("kill", input.clone()).await.unwrap_err();
        assert_eq!(error.status, ReplyStatus::InvalidData, "{input}");
    }
    // The pattern matches this test process, which `kill` leaves out. `plan` prevents damage if that should fail.
    let own = std::env::args().next().unwrap();
    let pattern = format!("/^{}/", own.replace('/', "."));
    let listed = ask("list", json!({"pattern": pattern})).await.unwrap();
    assert!(listed["count"].as_u64().unwrap() > 0);
    let planned = ask("kill", json!({"pattern": pattern, "plan": true}));
    let planned = planned.await.unwrap();
    let pids = planned["pids"].as_array().unwrap();
    assert!(!pids.contains(&json!(std::process::id())));
}

#[tokio::test]
async fn summary_counts_processes() {
    let summary = ask("summary", json!({"top": 3})).await.unwrap();
    let count = summary["count"].as_u64().unwrap();
    assert!(count > 0);
    let sum = |field: &str| -> u64 {
        let counts = summary[field].as_object().unwrap().values();
        counts.map(|value| value.as_u64().unwrap()).sum()
    };
    assert_eq!((sum("states"), sum("users")), (count, count));
    let memory: Vec<u64> = summary["by_memory"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["memory_bytes"].as_u64().unwrap())
        .collect();
    assert!(memory.is_sorted_by(|a, b| a >= b) && memory.len() <= 3);
}

/// A scratch root, such as a node of the demonstration: the processes of the host are neither listed nor signalled.
#[tokio::test]
async fn scratch_root_has_no_processes_of_the_host() {
    let root = tempfile::tempdir().unwrap();
    let system: Arc<dyn System> = Arc::new(RealSystem::new(root.path().to_owned()));
    let agent = ProcessPlugin::create_agent().unwrap();
    let node = TestNode::named("dev1.example.net").unwrap();
    let (process, _spool) = sleeper("muster-test-scratch-root");
    let host_pid = process.pid;
    for (action, input, output) in [
        ("list", json!({}), json!({"count": 0, "processes": []})),
        (
            "kill",
            json!({"pid": host_pid, "signal": "KILL"}),
            json!({"matched": 0, "signalled": 0, "pids": []}),
        ),
    ] {
        let declared = agent.ddl().find_action(action).unwrap();
        let input = declared.validate_input(input.as_object().unwrap()).unwrap();
        let cx = node.context("process", action, Arc::clone(&system)).unwrap();
        let found = agent.find_handler(action).unwrap().call(&cx, input).await.unwrap();
        assert_eq!(Value::Object(declared.validate_output(&found).unwrap()), output, "{action}");
    }
    assert!(host().is_running(&process));
    host().signal_process(&process, Signal::SIGKILL, true).unwrap();
}
