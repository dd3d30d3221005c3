//! Passive results in a named pipe as Nagios has it, and `rpc checks` without a directory.

use std::time::Duration;

use muster_tests::command::describe_output;
use muster_tests::published_schemas::{SchemaMode, check_schema};
use muster_tests::{await_state, poll_until_ok};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::command_pipe::CommandPipe;

use super::schedule_fixture::{NODE, ScheduleFleet, entry};

/// Texts that a terminal or Nagios would act on.
pub(super) const HOSTILE: [&str; 8] = [
    "x\n[1] PROCESS_HOST_CHECK_RESULT;web2;0;fine",
    "a;b;c",
    "\u{1b}]0;title\u{7}\u{1b}[2J",
    "a|b=1|c",
    "\r[1] DISABLE_NOTIFICATIONS",
    "'\"$(touch x)`id`",
    "\\n[1] DISABLE_NOTIFICATIONS",
    "\u{202e}\u{9b}2J",
];

/// Whether a terminal acts on the character.
fn is_harmful(c: char) -> bool {
    c.is_control() || c == '\u{202e}'
}

/// Whether a line is one command with a result of the node's check, and has no character that a terminal acts on.
fn is_result(line: &str, service: &str) -> bool {
    let (time, command) = line.split_once("] ").unwrap_or_default();
    let number = time.strip_prefix('[').and_then(|time| time.parse::<u64>().ok());
    number.is_some_and(|time| time > 1_700_000_000)
        && command.starts_with(&format!("PROCESS_SERVICE_CHECK_RESULT;{NODE};{service};"))
        && !line.chars().any(is_harmful)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_writes_one_line_for_each_node_and_needs_a_reader() {
    let fleet = ScheduleFleet::start("").await;
    let mut pipe = CommandPipe::create(fleet.fleet.rpc.path("nagios.cmd"));
    fleet.set_result("echo 'LOAD; high | load1=9;5;8;0;'; echo 'second | x=1'; exit 2");
    let path = pipe.path();
    let arguments = ["check_x", "--command-file", path.as_str()];
    let (text, exit) = fleet.fleet.check(&arguments).await;
    assert!(text.contains("CRITICAL: 1") && exit == 2, "{text}");
    let lines = pipe.lines();
    assert!(lines.len() == 1 && is_result(&lines[0], "check_x"), "{lines:?}");
    assert!(
        lines[0].ends_with(";check_x;2;LOAD; high|load1=9;5;8;0; x=1\\nsecond"),
        "{}",
        lines[0]
    );
    for (number, hostile) in HOSTILE.iter().enumerate() {
        fleet.node.write("plugins/output", hostile);
        fleet.set_result("cat $dir/output; exit 1");
        fleet.fleet.check(&arguments).await;
        let lines = pipe.lines();
        assert_eq!(lines.len(), number + 2, "{hostile:?}: {lines:?}");
        assert!(is_result(&lines[number + 1], "check_x"), "{lines:?}");
    }
    pipe.close();
    let (text, exit) = fleet.fleet.check(&arguments).await;
    assert!(text.starts_with("check_x: UNKNOWN: no process reads the command pipe "), "{text}");
    assert_eq!(exit, 3);
    let missing = fleet.fleet.rpc.path("missing").display().to_string();
    let (text, exit) = fleet.fleet.check(&["check_x", "--command-file", &missing]).await;
    assert!(text.contains("cannot open the command pipe") && exit == 3, "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn follower_writes_states_and_then_each_event() {
    let mut fleet =
        ScheduleFleet::start(&entry("x", "max_attempts = 1\nflap_detection = false")).await;
    let mut pipe = CommandPipe::create(fleet.fleet.rpc.path("nagios.cmd"));
    fleet.trigger(1).await;
    let path = pipe.path();
    let mut follower = fleet
        .fleet
        .rpc
        .prepare_command(&["checks", "--follow", "--command-file", &path])
        .spawn()
        .unwrap();
    let mut ready = String::new();
    let mut errors = BufReader::new(follower.stderr.take().unwrap());
    errors.read_line(&mut ready).await.unwrap();
    assert!(ready.contains("Wrote 1 state;"), "{ready}");
    assert!(pipe.lines()[0].ends_with(";x;1;state 1|x=1;1;2"), "{:?}", pipe.lines());
    for (number, hostile) in HOSTILE.iter().enumerate() {
        fleet.node.write("plugins/output", hostile);
        fleet.set_result(&format!("cat $dir/output; exit {}", 1 + (number + 1) % 2));
        fleet.call("trigger", &["check=x"]).await;
        await_state("the line arrives", || pipe.lines().len() >= number + 2).await;
        let lines = pipe.lines();
        assert!(lines.iter().all(|line| is_result(line, "x")), "{hostile:?}: {lines:?}");
        assert_eq!(lines.len(), number + 2, "{lines:?}");
    }
    // A change while the connection is lost is written when it is there again. The broker keeps no events.
    fleet.change_while_disconnected(&follower, 0).await;
    errors.read_line(&mut ready).await.unwrap();
    assert!(ready.contains("writing all states again"), "{ready}");
    await_state("the newest state is written", || {
        pipe.lines().last().is_some_and(|line| line.ends_with(";x;0;state 0|x=0;1;2"))
    })
    .await;
    // Nagios ends: the next event ends the follower.
    pipe.close();
    fleet.trigger(1).await;
    let status = tokio::time::timeout(Duration::from_mins(1), follower.wait()).await.unwrap();
    assert!(!status.unwrap().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_answer_without_a_directory_and_commands_change_them() {
    let fleet = ScheduleFleet::start(&(entry("x", "max_attempts = 1") + &entry("y", ""))).await;
    fleet.trigger(2).await;
    let rpc = &fleet.fleet.rpc;
    let output = rpc.run(&["checks"]).await;
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[1].starts_with(NODE) && lines[1].contains("CRITICAL"),
        "{}",
        describe_output(&output)
    );
    assert_eq!(
        lines[2],
        "2 checks on 1 node: 1 CRITICAL, 0 UNKNOWN, 0 WARNING, 0 OK, 1 not checked"
    );
    let exit_state = async |options: &[&str]| {
        rpc.run(&[&["checks", "--exit-state"], options].concat()).await.status.code()
    };
    assert_eq!((output.status.code(), exit_state(&[]).await), (Some(0), Some(2)));
    for (hostile, comment) in HOSTILE.iter().map(|text| (text, format!("--comment={text}"))) {
        let output =
            rpc.run(&["checks", "ack", "x", "-I", NODE, &comment, "--for", "2h", "--yes"]).await;
        assert!(output.status.success(), "{hostile:?}: {}", describe_output(&output));
        let printed = [output.stdout, output.stderr].concat();
        let printed = String::from_utf8(printed).unwrap();
        assert!(
            printed.contains("x is CRITICAL since 20") && printed.contains("acknowledged by rip"),
            "{printed}"
        );
        assert!(!printed.contains("state_type"), "{printed}");
        assert!(!printed.chars().any(|c| c != '\n' && is_harmful(c)), "{printed:?}");
    }
    assert_eq!(exit_state(&[]).await, Some(0));
    let (document, _) = rpc.run_json(&["checks"]).await;
    check_schema("muster.checks.v1", &document, SchemaMode::Strict).unwrap();
    assert_eq!((&document["source"], &document["state"]), (&json!("nodes"), &json!("ok")));
    assert_eq!(document["checks"][0]["acknowledged"], json!(true));
    assert_eq!(document["counts"]["not_checked"], json!(1));
    let names = async |options: &[&str]| {
        let output = rpc.run(&[&["checks", "-o", "name"], options].concat()).await;
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(names(&["--all"]).await, format!("{NODE} x\n{NODE} y\n"));
    assert_eq!(names(&["--state", "not-checked,ok"]).await, format!("{NODE} y\n"));
    for (line, expected) in [
        (&["unack", "x", "--yes"][..], 0),
        (&["unack", "x", "--yes"], 2),
        (&["maintenance", "--for", "30m", "--yes"], 0),
        (&["maintenance", "--end", "--yes"], 0),
        (&["maintenance", "x", "--for", "30m", "--comment", "kernel", "--yes"], 0),
        (&["maintenance", "--yes"], 4),
        (&["run", "x", "--yes"], 0),
    ] {
        let output = rpc.run(&[&["checks"], line, &["-I", NODE]].concat()).await;
        assert_eq!(output.status.code(), Some(expected), "{line:?}: {}", describe_output(&output));
    }
    let row =
        fleet.await_row("x", "it is in maintenance", |row| !row["maintenance"].is_null()).await;
    assert_eq!(row["maintenance"]["author"], json!("rip"));
    poll_until_ok("the audit log has the changes", Duration::from_mins(1), async || {
        let log = std::fs::read_to_string(fleet.node.path("audit.log")).unwrap();
        let has_all =
            ["acknowledge", "endmaintenance", "trigger"].iter().all(|name| log.contains(name));
        if has_all { Ok(()) } else { Err(log) }
    })
    .await;
}
