//! `rpc ssh` on a fleet with nodes whose records cannot be used: a node harms no other node.

use std::process::Output;

use muster_tests::command::describe_output;

use super::fixture::lines;
use super::ssh_fixture::{SshFleet, errors, host_key};

/// One node cannot keep the others from being reached.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_with_unusable_records_are_skipped_and_named() {
    let key = |name: &str| Some(host_key(name));
    let fleet = SshFleet::start_with_keys(&[
        ("bad1.acme.net", "10.0.0.5", Some("@cert-authority *".to_owned())),
        ("bad2.acme.net", "-oProxyCommand=x", key("bad2.acme.net")),
        ("web1.acme.net", "10.0.0.7", key("web1.acme.net")),
        ("web2.acme.net", "10.0.0.8", key("web2.acme.net")),
    ])
    .await;
    let select = ["-F", "role=web", "--address-fact", "networking.ip"];
    let named = |output: &Output| {
        assert_eq!(output.status.code(), Some(2), "{}", describe_output(output));
        let messages = errors(output).join("\n");
        for reason in [
            "skipped: the record of bad1.acme.net has an invalid ssh host key",
            "skipped: bad2.acme.net has no address in the fact networking.ip",
        ] {
            assert!(messages.contains(reason), "{messages}");
        }
    };
    let output = fleet.run(&[&["ssh", "--ssh-config"], &select[..]].concat()).await;
    named(&output);
    let hosts = lines(&output.stdout).into_iter().filter(|line| line.starts_with("Host "));
    assert_eq!(hosts.collect::<Vec<_>>(), ["Host web1.acme.net", "Host web2.acme.net"]);
    let output = fleet.run(&[&["ssh", "--all"], &select[..], &["--", "uptime"]].concat()).await;
    named(&output);
    let expected = [
        fleet.call("ssh", "web1.acme.net", &["--", "10.0.0.7", "uptime"]),
        fleet.call("ssh", "web2.acme.net", &["--", "10.0.0.8", "uptime"]),
    ];
    assert_eq!(fleet.calls(), expected);
    assert!(errors(&output).contains(&"2 of 4 nodes succeeded".to_owned()));

    // Alone it is an error.
    let output = fleet.run(&["ssh", "-I", "bad1.acme.net"]).await;
    assert_eq!(output.status.code(), Some(1), "{}", describe_output(&output));
    assert_eq!(fleet.calls(), [[""; 0]; 0]);
}

/// A node that publishes the key and the address of another machine gets no login of that machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn host_key_of_another_node_is_refused() {
    let fleet = SshFleet::start_with_keys(&[
        ("db1.acme.net", "10.0.0.7", Some(host_key("db1.acme.net"))),
        ("evil.acme.net", "10.0.0.7", Some(host_key("db1.acme.net"))),
        ("web1.acme.net", "10.0.0.8", Some(host_key("web1.acme.net"))),
    ])
    .await;
    let fact = ["--address-fact", "networking.ip"];
    for (node, other) in [("evil.acme.net", "db1.acme.net"), ("db1.acme.net", "evil.acme.net")] {
        let shared = format!("{node} and {other} publish the same ssh host key");
        for options in [&[][..], &fact, &["--via", "bus"]] {
            let output = fleet.run(&[&["ssh", "-I", node], options].concat()).await;
            assert_eq!(output.status.code(), Some(1), "{}", describe_output(&output));
            assert!(errors(&output)[0].contains(&shared), "{}", describe_output(&output));
            assert_eq!(fleet.calls(), [[""; 0]; 0]);
        }
        let output = fleet.run(&["scp", "-I", node, "--", "a", ":/tmp/"]).await;
        assert_eq!(output.status.code(), Some(1), "{}", describe_output(&output));
        assert_eq!(fleet.calls(), [[""; 0]; 0]);
        // OpenSSH's own files decide.
        fleet.run(&["ssh", "-I", node, "--own-host-keys"]).await;
        assert_eq!(fleet.calls(), [["ssh", "--", node]]);
    }
    let output = fleet.run(&["ssh", "-F", "role=web", "--ssh-config"]).await;
    assert_eq!(output.status.code(), Some(2), "{}", describe_output(&output));
    let hosts = lines(&output.stdout).into_iter().filter(|line| line.starts_with("Host "));
    assert_eq!(hosts.collect::<Vec<_>>(), ["Host web1.acme.net"]);
    let messages = errors(&output).join("\n");
    for node in ["db1.acme.net and evil.acme.net", "evil.acme.net and db1.acme.net"] {
        assert!(messages.contains(node), "{messages}");
    }
}
