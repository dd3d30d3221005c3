//! `rpc ssh`, `rpc scp` and `rpc sftp` with programs in PATH that record their arguments instead of OpenSSH (A6.6).

use std::process::{Output, Stdio};
use std::time::Duration;

use muster_tests::command::describe_output;

use super::fixture::lines;
use super::ssh_fixture::{SshFleet, errors, find_file, host_key};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
/// `ssh` in the search path is a program that records its arguments.
async fn a6_1_and_a6_6_one_match_becomes_ssh_with_pinned_host_keys() {
    let fleet =
        SshFleet::start(&[("db1.acme.net", "10.0.0.7"), ("web1.initech.net", "10.0.0.8")]).await;
    let mut command = fleet.prepare(&["ssh", "-I", "/^db/", "--", "-l", "root", "uptime; id"]);
    let output = command.env("STUB_EXIT", "7").output().await.unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", describe_output(&output));
    assert_eq!(errors(&output), ["Running: ssh db1.acme.net"]);
    assert_eq!(lines(&output.stdout), ["output of the node"]);
    let expected = ["-l", "root", "--", "db1.acme.net", "uptime; id"];
    assert_eq!(fleet.calls(), [fleet.call("ssh", "db1.acme.net", &expected)]);
    let known = find_file(&fleet.fleet.rpc.path(".cache"), "ssh/db1.acme.net").unwrap();
    let known = std::fs::read_to_string(known).unwrap();
    let expected = format!("db1.acme.net {}\n", host_key("db1.acme.net"));
    assert_eq!(known, expected, "the key, without its comment");

    // A node without keys is left to OpenSSH's own files, with a warning.
    let output = fleet.run(&["ssh", "-I", "/initech/"]).await;
    assert_eq!(fleet.calls(), [["ssh", "--", "web1.initech.net"]]);
    let warning = "the directory gave no ssh host keys of web1.initech.net";
    assert!(errors(&output)[0].contains(warning), "{}", describe_output(&output));
    let output = fleet.run(&["ssh", "-I", "/^db/", "--own-host-keys"]).await;
    assert_eq!(fleet.calls(), [["ssh", "--", "db1.acme.net"]]);
    assert_eq!(errors(&output), ["Running: ssh db1.acme.net"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a6_2_and_a6_3_several_matches_are_listed_or_chosen_from_a_menu() {
    let names: Vec<String> = (1..=5).map(|k| format!("web{k}.acme.net")).collect();
    let nodes: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "10.0.0.7")).collect();
    let fleet = SshFleet::start(&nodes).await;
    let output = fleet.run(&["ssh", "-F", "role=web"]).await;
    assert_eq!(output.status.code(), Some(2), "{}", describe_output(&output));
    assert_eq!(lines(&output.stdout), names);
    assert!(errors(&output)[0].contains("5 nodes match"), "{}", describe_output(&output));
    let output = fleet.run(&["ssh", "-F", "role=none"]).await;
    assert_eq!(output.status.code(), Some(1), "{}", describe_output(&output));
    assert!(errors(&output)[0].contains("no nodes matched"), "{}", describe_output(&output));
    // A mistyped name is no host to connect to, unless it is asked for.
    let mistyped = ["ssh", "-I", "wed1.acme.net"];
    let output = fleet.run(&mistyped).await;
    assert_eq!(output.status.code(), Some(1), "{}", describe_output(&output));
    let message = "no nodes matched: the directory knows no node `wed1.acme.net`";
    let text = describe_output(&output);
    assert!(text.contains(message) && text.contains("did you mean \"web1.acme.net\"?"), "{text}");
    assert_eq!(fleet.calls(), [[""; 0]; 0]);
    fleet.run(&[&mistyped[..], &["--own-host-keys"]].concat()).await;
    assert_eq!(fleet.calls(), [["ssh", "--", "wed1.acme.net"]]);
    fleet.forget_calls();

    // At a terminal: number k connects to node k, and a part of a name filters.
    let typed = (1..=5).map(|k| (format!("{k}\r"), k)).chain([("b4\r".to_owned(), 4)]);
    for (keys, k) in typed {
        fleet.forget_calls();
        let output = type_at_menu(&fleet, &keys).await;
        assert_eq!(output.status.code(), Some(0), "{}", describe_output(&output));
        let name = format!("web{k}.acme.net");
        assert_eq!(fleet.calls(), [fleet.call("ssh", &name, &["--", &name])], "{keys:?}");
    }
    let output = type_at_menu(&fleet, "\u{1b}").await;
    assert_eq!(output.status.code(), Some(1), "{}", describe_output(&output));
}

/// Runs `rpc ssh` on a terminal, and types when the menu is there.
async fn type_at_menu(fleet: &SshFleet, keys: &str) -> Output {
    let terminal = nix::pty::openpty(None, None).unwrap();
    let slave = || Stdio::from(terminal.slave.try_clone().unwrap());
    let mut command = fleet.prepare(&["ssh", "-F", "role=web"]);
    let child = command.stdin(slave()).stderr(slave()).spawn().unwrap();
    let master = terminal.master.try_clone().unwrap();
    let shown = tokio::task::spawn_blocking(move || {
        let mut shown = String::new();
        while !shown.contains("Number or part of a name") {
            let mut bytes = [0; 4096];
            let length = nix::unistd::read(&master, &mut bytes).unwrap();
            shown.push_str(&String::from_utf8_lossy(&bytes[..length]));
        }
        shown
    });
    let shown = tokio::time::timeout(Duration::from_secs(30), shown).await.unwrap().unwrap();
    assert!(shown.contains("> 1  web1.acme.net"), "{shown:?}");
    nix::unistd::write(&terminal.master, keys.as_bytes()).unwrap();
    // What is drawn later is read, so that the program does not wait for the terminal.
    let master = terminal.master.try_clone().unwrap();
    let rest = std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while nix::unistd::read(&master, &mut bytes).is_ok_and(|length| length > 0) {}
    });
    drop(command);
    let output = child.wait_with_output().await.unwrap();
    drop(terminal);
    rest.join().unwrap();
    output
}

/// A node sets its own facts: none of them becomes an option, a command or another host.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a6_4_hostile_addresses_are_refused_and_nothing_runs() {
    let hostile = [
        ("evil1.acme.net", "-oProxyCommand=touch owned"),
        ("evil2.acme.net", "web1; touch owned"),
        ("evil3.acme.net", "$(touch owned)"),
        ("evil4.acme.net", "root@10.0.0.1"),
    ];
    let fleet = SshFleet::start(&hostile).await;
    for (node, _) in hostile {
        let arguments = ["ssh", "-I", node, "--address-fact", "networking.ip"];
        let output = fleet.run(&arguments).await;
        assert_eq!(output.status.code(), Some(1), "{}", describe_output(&output));
        let message = errors(&output).join("\n");
        assert!(message.contains("neither an IP address nor a host name"), "{message}");
        assert_eq!(fleet.calls(), [[""; 0]; 0]);
    }
    // A name with a leading hyphen is no identity, so no filter selects it.
    let output = fleet.run(&["ssh", "-I=-oProxyCommand=x"]).await;
    assert_ne!(output.status.code(), Some(0), "{}", describe_output(&output));
    assert_eq!(fleet.calls(), [[""; 0]; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a6_5_addresses_from_facts_all_nodes_print_and_copies() {
    let fleet =
        SshFleet::start(&[("web1.acme.net", "10.0.0.7"), ("web2.acme.net", "2001:db8::2")]).await;
    let fact = ["--address-fact", "networking.ip"];
    let output = fleet.run(&[&["ssh", "-I", "web1.acme.net"], &fact[..]].concat()).await;
    assert_eq!(errors(&output), ["Running: ssh web1.acme.net"]);
    assert_eq!(fleet.calls(), [fleet.call("ssh", "web1.acme.net", &["--", "10.0.0.7"])]);

    // On all nodes, one after the other or at once.
    for parallel in ["1", "2"] {
        let all = ["ssh", "-F", "role=web", "--all", "--parallel", parallel];
        let output = fleet.run(&[&all, &fact[..], &["--", "uptime"]].concat()).await;
        assert_eq!(output.status.code(), Some(0), "{}", describe_output(&output));
        let expected = [
            fleet.call("ssh", "web1.acme.net", &["--", "10.0.0.7", "uptime"]),
            fleet.call("ssh", "web2.acme.net", &["--", "2001:db8::2", "uptime"]),
        ];
        assert_eq!(fleet.calls(), expected);
        assert_eq!(lines(&output.stdout), ["output of the node"; 2]);
        assert!(errors(&output).contains(&"2 of 2 nodes succeeded".to_owned()));
    }
    fleet.forget_calls();
    let mut command = fleet.prepare(&["ssh", "-F", "role=web", "--all", "--", "uptime"]);
    let output = command.env("STUB_EXIT", "3").output().await.unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", describe_output(&output));
    let failed = "web2.acme.net: exit status: 3";
    assert!(
        errors(&output).iter().any(|line| line.contains(failed)),
        "{}",
        describe_output(&output)
    );

    // A command on many nodes is confirmed as a request is.
    let text = std::fs::read_to_string(fleet.fleet.rpc.path("rpc.toml")).unwrap();
    fleet.fleet.rpc.write("rpc.toml", &format!("confirm = \"always\"\n{text}"));
    let all = ["ssh", "-F", "role=web", "--all"];
    let output = fleet.run(&[&all[..], &["--", "uptime"]].concat()).await;
    assert_eq!(output.status.code(), Some(4), "{}", describe_output(&output));
    assert_eq!(fleet.calls(), [[""; 0]; 0]);
    let output = fleet.run(&[&all[..], &["--yes", "--", "uptime"]].concat()).await;
    assert_eq!(output.status.code(), Some(0), "{}", describe_output(&output));
    fleet.fleet.rpc.write("rpc.toml", &text);
    fleet.forget_calls();

    // Only printed, as words of a shell.
    let output = fleet.run(&["ssh", "-I", "web1.acme.net", "--print", "--", "echo 'a b'"]).await;
    let printed = lines(&output.stdout).join("\n");
    let end = "-- web1.acme.net ";
    assert!(
        printed.starts_with("ssh -o HostKeyAlias=web1.acme.net") && printed.contains(end),
        "{printed}"
    );
    assert_eq!(fleet.calls(), [[""; 0]; 0]);

    // Copies, with the address in brackets where it has colons.
    fleet
        .run(&[&["scp", "-I", "web2.acme.net"], &fact[..], &["--", "-r", "a", ":/tmp/"]].concat())
        .await;
    let expected = ["-r", "a", "[2001:db8::2]:/tmp/"];
    assert_eq!(fleet.calls(), [fleet.call("scp", "web2.acme.net", &expected)]);
    let output = fleet.run(&["scp", "-I", "web2.acme.net", "--", "a", "b"]).await;
    assert_eq!(output.status.code(), Some(4), "{}", describe_output(&output));
    fleet.run(&["sftp", "-I", "web2.acme.net", "--", "-b", "x"]).await;
    assert_eq!(
        fleet.calls(),
        [fleet.call("sftp", "web2.acme.net", &["-b", "x", "--", "web2.acme.net"])]
    );
}

/// The real OpenSSH accepts the configuration, and reads the host keys in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn configuration_for_openssh_is_read_by_openssh() {
    let fleet =
        SshFleet::start(&[("web1.acme.net", "10.0.0.7"), ("web2.acme.net", "10.0.0.8")]).await;
    let output = fleet
        .run(&["ssh", "-F", "role=web", "--ssh-config", "--address-fact", "networking.ip"])
        .await;
    assert_eq!(output.status.code(), Some(0), "{}", describe_output(&output));
    fleet.fleet.rpc.write("ssh_config", &String::from_utf8_lossy(&output.stdout));
    let config = fleet.fleet.rpc.path("ssh_config");
    let read = read_config(&config, "web2.acme.net").await;
    for line in [
        "hostname 10.0.0.8",
        "hostkeyalias web2.acme.net",
        "stricthostkeychecking true",
        "updatehostkeys false",
        "globalknownhostsfile /dev/null",
    ] {
        assert!(read.lines().any(|found| found == line), "{line}: {read}");
    }
    let known = read.lines().find_map(|line| line.strip_prefix("userknownhostsfile ")).unwrap();
    assert!(std::fs::read_to_string(known).unwrap().starts_with("web2.acme.net ssh-ed25519 "));
}

#[expect(clippy::disallowed_types, reason = "runs the real program")]
async fn read_config(config: &std::path::Path, host: &str) -> String {
    let output = tokio::process::Command::new("/usr/bin/ssh")
        .arg("-G")
        .arg("-F")
        .arg(config)
        .arg(host)
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{}", describe_output(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
