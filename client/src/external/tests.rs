//! Discovery programs: successful, failing, hanging and verbose shell scripts.

use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use muster_base::join_causes;
use muster_calls::DiscoveryQuery;
use muster_calls::discovery::external::build_request;

use super::run_discovery_program;
use crate::observer::{RequestEvent, RequestObserver};

/// Stores the messages of a program.
#[derive(Debug, Default)]
struct ProgramLines(RefCell<Vec<String>>);

impl RequestObserver for ProgramLines {
    fn observe(&self, event: RequestEvent<'_>) {
        if let RequestEvent::ProgramOutput(_, line) | RequestEvent::ProgramWarning(_, line) = event
        {
            self.0.borrow_mut().push(line.raw().to_owned());
        }
    }
}

/// Runs a shell script as the discovery program; returns the nodes or the error, and the messages.
async fn of(script: &str, timeout: Duration) -> (Result<Vec<String>, String>, String) {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("find nodes");
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let command = [program.display().to_string(), "a word; true".to_owned()];
    let options = [("site".to_owned(), "lhr".to_owned())].into();
    let request = build_request(&DiscoveryQuery::default(), timeout, &options);
    let lines = ProgramLines::default();
    let told = run_discovery_program(&command, timeout, &request, &lines).await;
    let told = told.map(|nodes| nodes.iter().map(ToString::to_string).collect());
    let told = told.map_err(|error| join_causes(&error, ": "));
    (told, lines.0.take().join("\n"))
}

const PATIENCE: Duration = Duration::from_mins(1);

#[tokio::test]
async fn program_receives_the_request_and_its_nodes_are_used() {
    let script = r#"
        echo "looking" ; echo "slow today" >&2
        test "$CHORIA_EXTERNAL_REQUEST" = "$2" -a "$CHORIA_EXTERNAL_REPLY" = "$3" -a "$CHORIA_EXTERNAL_PROTOCOL" = "$4" || exit 9
        test "$1" = "a word; true" -a -z "$HOME$USER$LANG" || exit 8
        grep -q '"site":"lhr"' "$2" || exit 7
        echo '{"protocol": "io.choria.choria.discovery.v1.external_reply", "nodes": ["web2", "WEB1"]}' > "$3""#;
    let (nodes, talk) = of(script, PATIENCE).await;
    assert_eq!(nodes.unwrap(), ["web1", "web2"]);
    assert!(talk.contains("looking") && talk.contains("slow today"), "{talk}");
}

#[tokio::test]
async fn reports_failed_invalid_and_empty_replies() {
    for (script, expected) in [
        ("echo '{\"error\": \"no database\"}' > \"$3\"", "it reported an error: no database"),
        ("exit 3", "failed: exit status: 3"),
        ("true", "it wrote no reply"),
        ("echo '<nodes/>' > \"$3\"", "its reply does not conform to the protocol"),
        ("rm \"$3\"", "cannot exchange files"),
        ("echo '{\"nodes\": [\"a\"]}' > \"$3\"", "its reply has protocol"),
        ("kill -9 $$", "failed: signal: 9"),
    ] {
        let (told, _) = of(script, PATIENCE).await;
        let told = told.unwrap_err();
        assert!(told.contains(expected), "{script}: {told}");
    }
    let nowhere = ["/nonexistent/program".to_owned()];
    let error =
        run_discovery_program(&nowhere, PATIENCE, &serde_json::json!({}), &ProgramLines::default())
            .await;
    assert!(error.unwrap_err().to_string().contains("cannot start"));
}

#[tokio::test]
async fn program_that_times_out_is_killed_with_its_children() {
    let directory = tempfile::tempdir().unwrap();
    let pid = directory.path().join("pid");
    let begun = Instant::now();
    let script = format!("sleep 600 & echo $! > '{}'; wait", pid.display());
    let (told, _) = of(&script, Duration::from_secs(2)).await;
    assert!(told.unwrap_err().contains("did not exit within 2 s"));
    assert!(begun.elapsed() < Duration::from_mins(5));
    let pid = fs::read_to_string(pid).unwrap();
    let stat = format!("/proc/{}/stat", pid.trim());
    // The kernel may need some time to end the processes.
    while fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z")) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn long_stderr_is_drained_and_truncated() {
    let script = r#"head -c 300000 /dev/zero | tr '\0' 'x' >&2
        echo '{"protocol": "io.choria.choria.discovery.v1.external_reply", "nodes": []}' > "$3""#;
    let (nodes, talk) = of(script, PATIENCE).await;
    assert!(nodes.unwrap().is_empty());
    assert!(talk.len() < 40_000, "{}", talk.len());
}
