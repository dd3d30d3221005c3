//! The result of a check on many nodes: its first line, its exit code, nodes that do not reply, and the cache.

use std::time::Duration;

use muster_tests::await_state;
use muster_tests::command::describe_output;

use super::fixture::{CheckFleet, CheckNode, counts_of, read_check};

/// A plugin that exits with its argument.
const STATE: &str = "echo \"state $1\"; exit $1";

/// Nodes whose check exits with 0 to 3: `node0` to `node3`.
async fn fleet_of_all_states() -> (CheckFleet, Vec<CheckNode>) {
    let fleet = CheckFleet::start().await;
    let nodes = ["0", "1", "2", "3"].map(|code| {
        let plugins = [("check_state", STATE, code)];
        fleet.start_node(&format!("node{code}"), &plugins, ("", ""))
    });
    fleet.await_nodes(4).await;
    (fleet, nodes.into())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a7_1_first_line_is_byte_exact() {
    let plugins = [("check_load", "echo 'OK - load average: 0.04|load1=0.04;15;30;0;'", "")];
    let (fleet, _node) = CheckFleet::with_node(&plugins, ("", "")).await;
    let (text, exit) = fleet.check(&["check_load"]).await;
    assert_eq!(
        counts_of(&text),
        "check_load: OK: 1 WARNING: 0 CRITICAL: 0 UNKNOWN: 0|total=1 ok=1 warn=0 crit=0 unknown=0"
    );
    assert_eq!((text.lines().count(), text.ends_with('\n'), exit), (1, true, 0), "{text}");
}

/// A monitoring system reads 1 as WARNING, and 0 as OK: a result that cannot be written is UNKNOWN.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_that_cannot_be_written_is_unknown() {
    let (fleet, _node) = CheckFleet::with_node(&[("check_x", "echo fine", "")], ("", "")).await;
    for arguments in [
        &["check", "check_x"][..],
        &["check", "check_x", "-j"],
        &["check", "check_x", "--prometheus"],
        &["checks", "--exit-state", "--live", "-j"],
        &["check-registration"],
    ] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let (reader, closed) = std::io::pipe().unwrap();
        drop(reader);
        for stdout in [full.into(), closed.into()] {
            let stdout: std::process::Stdio = stdout;
            let command = fleet.rpc.prepare_command(arguments).stdout(stdout).spawn();
            let output = command.unwrap().wait_with_output().await.unwrap();
            assert_eq!(
                output.status.code(),
                Some(3),
                "{arguments:?}: {}",
                describe_output(&output)
            );
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(errors.contains("cannot write the output"), "{errors}");
        }
    }
}

/// Without a broker nothing is known.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn states_of_an_unreachable_fleet_are_unknown() {
    let mut fleet = CheckFleet::start().await;
    fleet.server.kill();
    for arguments in
        [&["check", "check_x"][..], &["checks", "--exit-state"], &["check-registration"]]
    {
        let output = fleet.rpc.run(arguments).await;
        assert_eq!(output.status.code(), Some(3), "{arguments:?}: {}", describe_output(&output));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a7_2_exit_code_is_2_then_3_then_1_then_0() {
    let (fleet, _nodes) = fleet_of_all_states().await;
    for (nodes, options, exit) in [
        ("0", "", 0),
        ("01", "", 1),
        ("013", "", 3),
        ("0123", "", 2),
        ("12", "", 2),
        ("23", "", 2),
        ("03", "--unknown-as=ok", 0),
        ("013", "--unknown-as=ok", 1),
        ("03", "--unknown-as=warning", 1),
        ("13", "--unknown-as=critical", 2),
        ("03", "--unknown-as=unknown", 3),
        ("0123", "--crit=100%", 0),
        ("0123", "--warn=50% --crit=4", 1),
        ("0123", "--crit=3", 2),
        ("01", "--warn=2", 0),
    ] {
        let nodes: Vec<String> = nodes.chars().map(|node| format!("-Inode{node}")).collect();
        let arguments = nodes.iter().map(String::as_str).chain(options.split_whitespace());
        let arguments: Vec<&str> = std::iter::once("check_state").chain(arguments).collect();
        let (text, found) = fleet.check(&arguments).await;
        assert_eq!(found, exit, "{arguments:?}: {text}");
    }
    let (text, exit) = fleet.check(&["check_state"]).await;
    let (first, blocks) = text.split_once('\n').unwrap();
    assert_eq!(
        counts_of(first),
        "check_state: OK: 1 WARNING: 1 CRITICAL: 1 UNKNOWN: 1|total=4 ok=1 warn=1 crit=1 unknown=1"
    );
    assert_eq!(
        blocks,
        "CRITICAL:\n  node2: state 2\nWARNING:\n  node1: state 1\nUNKNOWN:\n  node3: state 3\n"
    );
    assert_eq!(exit, 2);
    let (text, exit) = fleet.check(&["check_state", "-F", "country=xx"]).await;
    assert_eq!((text.as_str(), exit), ("check_state: UNKNOWN: no nodes found\n", 3));
    let (text, exit) = fleet.check(&["no_such", "-I", "node0"]).await;
    assert!(text.ends_with("UNKNOWN:\n  node0: No such command: no_such\n"), "{text}");
    assert_eq!(exit, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a7_3_node_killed_during_the_check_is_unknown_and_counted() {
    let fleet = CheckFleet::start().await;
    let quick = fleet.start_node("quick", &[("check_x", "echo fine", "")], ("", ""));
    for (options, total) in [(&[][..], 2), (&["--compat"], 1)] {
        let script = "dir=${0%/*}; : > $dir/started; while [ -e $dir/started ]; do sleep 0.1; done";
        let mut slow = fleet.start_node("slow", &[("check_x", script, "")], ("", ""));
        fleet.await_nodes(2).await;
        let arguments = [&["check", "check_x", "-t", "3"], options].concat();
        let running = fleet.rpc.prepare_command(&arguments).spawn().unwrap();
        await_state("the check runs", || slow.path("plugins/started").exists()).await;
        slow.daemon.kill_and_wait();
        let output = running.wait_with_output().await.unwrap();
        let (text, exit) = read_check(&output);
        assert_eq!(
            counts_of(&text),
            format!(
                "check_x: OK: 1 WARNING: 0 CRITICAL: 0 UNKNOWN: 1|total={total} ok=1 warn=0 crit=0 unknown=1"
            )
        );
        assert!(text.ends_with("\nUNKNOWN:\n  slow: no reply\n"), "{}", describe_output(&output));
        assert_eq!(exit, 3);
    }
    drop(quick);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreachable_broker_is_unknown() {
    let fleet = CheckFleet::start().await;
    let text = std::fs::read_to_string(fleet.rpc.path("rpc.toml")).unwrap();
    let (before, after) = text.split_once("urls = [").unwrap();
    let rest = after.split_once(']').unwrap().1;
    fleet.rpc.write("rpc.toml", &format!("{before}urls = [\"nats://127.0.0.1:1\"]{rest}"));
    let (text, exit) = fleet.check(&["check_x"]).await;
    assert!(text.starts_with("check_x: UNKNOWN: ") && text.lines().count() == 1, "{text}");
    assert_eq!(exit, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_pollers_with_a_cache_ask_the_nodes_once() {
    let plugins = [("check_x", "echo run >> ${0%/*}/runs; echo fine", "")];
    let (fleet, node) = CheckFleet::with_node(&plugins, ("", "")).await;
    let runs = || std::fs::read_to_string(node.path("plugins/runs")).unwrap().lines().count();
    let poll = |options: &'static str| {
        fleet.rpc.prepare_command(&["check", "check_x", "--cache", options]).spawn().unwrap()
    };
    let mut texts = std::collections::BTreeSet::new();
    let pollers: Vec<_> = (0..50).map(|_| poll("600")).collect();
    for poller in pollers {
        let (text, exit) = read_check(&poller.wait_with_output().await.unwrap());
        assert_eq!(exit, 0, "{text}");
        texts.insert(text);
    }
    assert_eq!((texts.len(), runs()), (1, 1), "{texts:?}");
    // Another check, other nodes and an older result are not taken from it.
    muster_tests::simulate_delay(Duration::from_millis(20)).await;
    for (options, count) in
        [(&["--cache", "0.01"][..], 2), (&["-I", "/web/", "--cache", "600"], 3), (&[], 4)]
    {
        let (text, exit) = fleet.check(&[&["check_x"], options].concat()).await;
        assert_eq!((exit, runs()), (0, count), "{options:?} {text}");
    }
    let (document, _) = fleet.rpc.run_json(&["check", "check_x", "--cache", "600"]).await;
    assert_eq!((document["cached"].as_bool(), runs()), (Some(true), 4));
}
