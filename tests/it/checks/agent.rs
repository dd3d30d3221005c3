//! The agent `nrpe`: how it runs programs, and what it makes of their ends.

use std::path::Path;

use muster_system::process::ProcessStat;
use muster_tests::await_state;
use serde_json::{Value, json};

use super::fixture::CheckFleet;

/// A plugin that prints each of its arguments on a line.
const ARGUMENTS: &str = "for argument in \"$@\"; do printf '<%s>\\n' \"$argument\"; done";

fn all_output(data: &Value) -> String {
    let text = |name: &str| data[name].as_str().unwrap_or_default().to_owned();
    [text("output"), text("long_output")].join("\n").trim_end().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a7_4_checks_run_without_a_shell_and_arguments_are_off() {
    let plugins = [
        ("check_quotes", ARGUMENTS, "'a b' \"c;d\" e\\ f *"),
        ("check_pipe", ARGUMENTS, "x | cat"),
        ("check_substitution", ARGUMENTS, "$(id)"),
        ("check_arguments", ARGUMENTS, "-w $ARG1$ 'x $ARG2$'"),
    ];
    let (fleet, node) = CheckFleet::with_node(&plugins, ("", "")).await;
    let (_, message, data) = fleet.run_command(&["command=check_quotes"]).await;
    assert_eq!((message.as_str(), all_output(&data).as_str()), ("OK", "<a b>\n<c;d>\n<e f>\n<*>"));
    for name in ["check_pipe", "check_substitution"] {
        let (code, message, data) = fleet.run_command(&[&format!("command={name}")]).await;
        assert_eq!((code, message.as_str(), &data["exitcode"]), (1, "UNKNOWN", &json!(3)));
        assert!(all_output(&data).contains("needs a shell"), "{data}");
    }
    let (code, message, data) = fleet.run_command(&["command=check_arguments", "args=5!6"]).await;
    assert_eq!((code, &data["exitcode"]), (4, &json!(3)), "{data}");
    assert!(message.starts_with("arguments are refused: "), "{message}");
    assert!(message.ends_with("nrpe.cfg does not set dont_blame_nrpe=1"), "{message}");
    let (_, _, data) = fleet.run_command(&["command=check_arguments"]).await;
    assert_eq!(all_output(&data), "<-w>\n<x >");

    // The file is read again because it has changed.
    let path = node.path("nrpe/nrpe.cfg");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text + "dont_blame_nrpe=1\n").unwrap();
    let (_, message, data) =
        fleet.run_command(&["command=check_arguments", "args=5; id $(id)!6' \"7"]).await;
    assert_eq!(message, "OK");
    assert_eq!(all_output(&data), "<-w>\n<5; id $(id)>\n<x 6' \"7>");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a7_5_timeout_ends_the_process_group() {
    let script = "trap '' TERM; sleep 600 & echo $! > ${0%/*}/child; echo $$ > ${0%/*}/self; wait; wait; sleep 600";
    let plugins = [("check_hang", script, "")];
    let (fleet, node) = CheckFleet::with_node(&plugins, ("", "timeout = 1\n")).await;
    let (code, message, data) = fleet.run_command(&["command=check_hang"]).await;
    assert_eq!((code, message.as_str()), (1, "UNKNOWN"));
    assert_eq!((&data["output"], &data["exitcode"]), (&json!("timed out after 1s"), &json!(3)));
    for file in ["plugins/child", "plugins/self"] {
        let pid = std::fs::read_to_string(node.path(file)).unwrap();
        let stat = Path::new("/proc").join(pid.trim()).join("stat");
        await_state("the process has ended", || {
            let text = std::fs::read_to_string(&stat).unwrap_or_default();
            ProcessStat::parse(&text).is_none_or(|stat| stat.state == 'Z')
        })
        .await;
    }
    // The caller's own limit counts, too.
    let (_, _, data) = fleet.run_command(&["command=check_hang", "-t", "1"]).await;
    assert_eq!(data["output"], json!("timed out after 1s"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a7_6_other_exit_codes_and_signals_are_unknown_with_a_text() {
    let plugins = [
        ("check_4", "echo text; exit 4", ""),
        ("check_127", "exit 127", ""),
        ("check_255", "echo 'no host' >&2; exit 255", ""),
        ("check_signal", "kill -9 $$", ""),
        ("check_silent", "exit 2", ""),
        ("check_silent_ok", "exit 0", ""),
    ];
    let more = "command[check_missing]=/no/such/plugin\n";
    let (fleet, _node) = CheckFleet::with_node(&plugins, (more, "")).await;
    for (name, code, state, output) in [
        ("check_4", 3, "UNKNOWN", "exited with code 4: text"),
        ("check_127", 3, "UNKNOWN", "exited with code 127, without standard output"),
        ("check_255", 3, "UNKNOWN", "exited with code 255, without standard output: no host"),
        (
            "check_signal",
            3,
            "UNKNOWN",
            "exited with code 137, or was ended by signal 9, without standard output",
        ),
        ("check_silent", 3, "UNKNOWN", "exited with code 2, without standard output"),
        ("check_silent_ok", 3, "UNKNOWN", "exited with code 0, without standard output"),
        ("check_missing", 3, "UNKNOWN", "cannot start `/no/such/plugin`: "),
        ("check_unheard_of", 3, "UNKNOWN", "No such command: check_unheard_of"),
    ] {
        let (status, message, data) = fleet.run_command(&[&format!("command={name}")]).await;
        assert_eq!(
            (status, message.as_str(), &data["exitcode"]),
            (1, state, &json!(code)),
            "{name}"
        );
        let text = data["output"].as_str().unwrap();
        assert!(text == output || (output.ends_with(": ") && text.starts_with(output)), "{text}");
        assert_eq!(data["command"], json!(name));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a7_8_all_commands_run_a_limited_number_at_a_time() {
    let script = "dir=${0%/*}/running; mkdir -p $dir; : > $dir/$$; ls $dir | wc -l >> ${0%/*}/counts\n\
                  sleep 0.3; rm $dir/$$; echo \"done|t=1\"; exit $1";
    let names: Vec<String> = (0..8).map(|number| format!("check_{number}")).collect();
    let plugins: Vec<(&str, &str, &str)> = names
        .iter()
        .map(|name| (name.as_str(), script, if name == "check_3" { "2" } else { "0" }))
        .collect();
    let (fleet, node) =
        CheckFleet::with_node(&plugins, ("command[bad]=a | b\n", "concurrency = 2\n")).await;
    let (document, _) = fleet.rpc.run_json(&["do", "nrpe", "runallcommands"]).await;
    let reply = &document["replies"][0];
    assert_eq!(reply["statusmsg"], json!("OK"), "{document}");
    let commands = reply["data"]["commands"].as_object().unwrap();
    assert_eq!(commands.len(), 9);
    assert_eq!(commands["check_0"], json!({"exitcode": 0, "output": "done", "perfdata": "t=1"}));
    assert_eq!(
        (&commands["check_3"]["exitcode"], &commands["bad"]["exitcode"]),
        (&json!(2), &json!(3))
    );
    let counts = std::fs::read_to_string(node.path("plugins/counts")).unwrap();
    let counts: Vec<u32> = counts.lines().map(|line| line.trim().parse().unwrap()).collect();
    assert_eq!((counts.len(), counts.iter().max()), (8, Some(&2)), "{counts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a7_9_checks_run_as_the_configured_user_if_the_daemon_is_root() {
    let more = "command[check_user]=/usr/bin/id -un\ncommand[check_groups]=/usr/bin/id -G\ncommand[check.main group]=/usr/bin/id -gn\n\
                nrpe_user=daemon\nnrpe_group=nogroup\n";
    let (fleet, node) = CheckFleet::with_node(&[], (more, "user = \"nobody\"\n")).await;
    let by_file = fleet.start_node("web2.example.net", &[], (more, ""));
    let missing = fleet.start_node("web3.example.net", &[], (more, "user = \"no-such-user\"\n"));
    fleet.await_nodes(3).await;
    let (document, _) = fleet.rpc.run_json(&["check", "check_user"]).await;
    let outputs: Vec<&str> = document["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| node["output"].as_str().unwrap())
        .collect();
    let own = nix::unistd::User::from_uid(nix::unistd::geteuid()).unwrap().unwrap().name;
    if nix::unistd::geteuid().is_root() {
        let refused = "not run: this node has no user no-such-user in /etc/passwd";
        assert_eq!(outputs, ["nobody", "daemon", refused]);
        let (_, _, data) =
            fleet.run_command(&["command=check_groups", "-I", "web1.example.net"]).await;
        let groups = data["output"].as_str().unwrap();
        assert!(!groups.split(' ').any(|group| group == "0"), "{groups}");
        let of_file = ["command=check.main group", "-I", "web2.example.net"];
        let (_, _, data) = fleet.run_command(&of_file).await;
        assert_eq!(data["output"], json!("nogroup"), "nrpe_group beside nrpe_user");
    } else {
        assert_eq!(outputs, [own.as_str(); 3]);
    }
    drop((node, by_file, missing));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_are_found_by_the_state_of_a_check() {
    let fleet = CheckFleet::start().await;
    let nodes = ["0", "2"].map(|code| {
        let plugins = [("check_state", "echo state; exit $1", code)];
        fleet.start_node(&format!("node{code}"), &plugins, ("", ""))
    });
    fleet.await_nodes(2).await;
    for (expression, expected) in [
        ("nrpe('check_state').exitcode = 2", "node2\n"),
        ("nrpe('check_state').exitcode = 0", "node0\n"),
        ("nrpe('unheard_of').exitcode = 3", "node0\nnode2\n"),
    ] {
        let output = fleet.rpc.run(&["find", "-S", expression]).await;
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{expression}");
    }
    drop(nodes);
}
