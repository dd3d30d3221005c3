//! `rpc ssh --via bus` and `rpc scp --via bus` with the real OpenSSH to a machine whose sshd cannot be reached over the network.

use std::process::Output;
use std::time::{Duration, Instant};

use muster_tests::command::describe_output;
use muster_tests::poll_until_ok;

use super::ssh::SshMachines;
use crate::machines::RECOVERY_TIMEOUT;
use crate::machines::nodes::node_name;

/// Bytes of a file that is copied to compare the throughput.
const COPIED_BYTES: usize = 100 * 1024 * 1024;
const COPY_ROUNDS: usize = 3;

/// sshd listens on loopback only, and the node permits tunnels to it.
const CLOSE_SSHD: &str = "printf 'ListenAddress 127.0.0.1\\n' > /etc/ssh/sshd_config.d/loopback.conf && systemctl restart ssh && \
    printf '[plugins.tunnel]\\nenabled = true\\n' > /etc/muster/conf.d/tunnel.toml && \
    printf 'policy default deny\\nallow\\t*\\topen\\t*\\t*\\tinput:port=22\\n' > /etc/muster/policies/tunnel.policy && systemctl restart rpcd";

async fn run(machines: &SshMachines, command: &[&str], arguments: &[&str]) -> Output {
    let login = machines.login.iter().map(String::as_str);
    let words: Vec<&str> = command
        .iter()
        .copied()
        .chain(["--via", "bus", "--"])
        .chain(login)
        .chain(arguments.iter().copied())
        .collect();
    machines.nodes.operator.run(&words).await
}

#[tokio::test(flavor = "multi_thread")]
async fn ssh_and_scp_reach_a_machine_without_an_open_port() {
    let Some(machines) = SshMachines::start().await else { return };
    let target = node_name("m2");
    let nodes = &machines.nodes;
    nodes.machines.sh("m2", CLOSE_SSHD).await;
    let address = nodes.machines.machines.get("m2").unwrap().clone();
    poll_until_ok("the port is closed", RECOVERY_TIMEOUT, async || {
        let connecting = tokio::net::TcpStream::connect((address.clone(), 22));
        match tokio::time::timeout(Duration::from_secs(2), connecting).await {
            Ok(Ok(_)) => Err("port 22 accepts connections"),
            _ => Ok(()),
        }
    })
    .await;
    poll_until_ok("the node offers tunnels", RECOVERY_TIMEOUT, async || {
        let output = nodes.operator.run(&["find", "-A", "tunnel", "-I", &target]).await;
        if output.status.success() { Ok(()) } else { Err(describe_output(&output)) }
    })
    .await;

    let words = ["-l", "root", "cat /etc/hostname"];
    let output = run(&machines, &["ssh", "-I", &target], &words).await;
    assert_eq!(output.status.code(), Some(0), "{}", describe_output(&output));
    let hostname = nodes.machines.sh("m2", "cat /etc/hostname").await;
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim_end(), hostname);
    let output = run(&machines, &["ssh", "-I", &target], &["-l", "root", "exit 7"]).await;
    assert_eq!(output.status.code(), Some(7), "{}", describe_output(&output));

    let text = "to the node".repeat(200_000);
    std::fs::write(nodes.operator.path("large.txt"), &text).unwrap();
    let copy = ["-o", "User=root", "large.txt", ":/root/large.txt"];
    let output = run(&machines, &["scp", "-I", &target], &copy).await;
    assert_eq!(output.status.code(), Some(0), "{}", describe_output(&output));
    let back = ["-o", "User=root", ":/root/large.txt", "back.txt"];
    let output = run(&machines, &["scp", "-I", &target], &back).await;
    assert_eq!(output.status.code(), Some(0), "{}", describe_output(&output));
    assert!(std::fs::read_to_string(nodes.operator.path("back.txt")).unwrap() == text);
    // sftp reads its commands from a file.
    std::fs::write(nodes.operator.path("commands"), "get /root/large.txt by-sftp.txt\n").unwrap();
    let words = ["sftp", "-I", target.as_str(), "--via", "bus", "--"];
    let words: Vec<&str> = words
        .into_iter()
        .chain(machines.login.iter().map(String::as_str))
        .chain(["-o", "User=root", "-b", "commands"])
        .collect();
    let output = nodes.operator.run(&words).await;
    assert_eq!(output.status.code(), Some(0), "{}", describe_output(&output));
    assert!(std::fs::read_to_string(nodes.operator.path("by-sftp.txt")).unwrap() == text);

    // The configuration pins the host key as without a tunnel.
    let config = ["ssh", "-I", target.as_str(), "--via", "bus", "--ssh-config"];
    let output = nodes.operator.run(&config).await;
    let block = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(block.contains(&format!("HostKeyAlias {target}")), "{block}");
    assert!(block.contains(&format!("tunnel {target} 22 --stdio")), "{block}");
    compare_throughput(&machines, &target).await;
}

/// Copies a file directly and through the bus, in turns, and prints the medians. sshd listens on all addresses for it.
#[expect(clippy::print_stdout, reason = "shows a measurement, which the test does not assert")]
async fn compare_throughput(machines: &SshMachines, target: &str) {
    let nodes = &machines.nodes;
    nodes
        .machines
        .sh("m2", "rm /etc/ssh/sshd_config.d/loopback.conf && systemctl restart ssh")
        .await;
    std::fs::write(nodes.operator.path("copied.bin"), vec![7; COPIED_BYTES]).unwrap();
    let copy = ["-o", "User=root", "copied.bin", ":/dev/null"];
    let mut times = [const { Vec::new() }; 2];
    for _ in 0..COPY_ROUNDS {
        for (is_via_bus, times) in [false, true].into_iter().zip(&mut times) {
            let started = Instant::now();
            let output = if is_via_bus {
                run(machines, &["scp", "-I", target], &copy).await
            } else {
                machines.run(&["scp", "-I", target], &copy).await
            };
            assert_eq!(output.status.code(), Some(0), "{}", describe_output(&output));
            times.push(started.elapsed());
        }
    }
    let [direct, via_bus] = times.map(|mut times| {
        times.sort_unstable();
        *times.get(COPY_ROUNDS / 2).unwrap()
    });
    let ratio = direct.as_secs_f64() / via_bus.as_secs_f64();
    println!(
        "scp of {COPIED_BYTES} bytes: direct {direct:?}, via bus {via_bus:?}: {ratio:.2} of the throughput"
    );
}
