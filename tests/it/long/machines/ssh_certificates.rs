//! Logins with certificates on booted machines, with the real sshd and OpenSSH's client: no key is in any `authorized_keys`.

use std::process::Output;
use std::time::Instant;

use muster_tests::command::describe_output;
use muster_tests::poll_until_ok;

use super::ssh::SshMachines;
use crate::machines::RECOVERY_TIMEOUT;
use crate::machines::nodes::node_name;

const ROUNDS: usize = 10;

/// As in docs/guides/ssh.md.
const SSHD: &str = "TrustedUserCAKeys /var/lib/muster/ssh/user-ca.pub\\n\
    AuthorizedPrincipalsCommand /usr/sbin/rpcd ssh-principals %%u %%k\\n\
    AuthorizedPrincipalsCommandUser root\\n";

const POLICY: &str = "policy default deny\\nallow\\trip\\tlogin\\t*\\t*\\tinput:user=deploy\\n";

/// The last permitted and the last refused login.
const SHOW_LOGINS: &str = "for log in audit audit-refusals; do grep '\"agent\":\"ssh\"' /var/log/muster/$log.log | tail -n 1; done";

/// `deploy` exists on m2, whose sshd asks the daemon; m1 signs.
async fn prepare(machines: &SshMachines) {
    let nodes = &machines.nodes;
    nodes.operator.run_successfully(&["org", "ssh-ca", "create"]).await;
    copy_key(machines).await;
    let section = "[plugins.ssh_ca]\\nkey = \"/etc/muster/ssh-ca.nk\"\\n";
    let policy = "policy default deny\\nallow\\trip\\tsign\\t*\\t*\\n";
    let script = format!(
        "printf '{section}' > /etc/muster/conf.d/ssh.toml && printf '{policy}' > /etc/muster/policies/ssh_ca.policy && systemctl restart rpcd"
    );
    nodes.machines.sh("m1", &script).await;
    let script = format!(
        "rm -f /root/.ssh/authorized_keys && useradd -m -s /bin/sh deploy && \
         printf '[plugins.ssh]\\nlogins = true\\n' > /etc/muster/conf.d/ssh.toml && printf '{POLICY}' > /etc/muster/policies/ssh.policy && \
         systemctl restart rpcd && printf '{SSHD}' > /etc/ssh/sshd_config.d/muster.conf && sshd -t && systemctl restart ssh"
    );
    nodes.machines.sh("m2", &script).await;
    poll_until_ok("a host signs and a node decides", RECOVERY_TIMEOUT, async || {
        let signers = nodes.operator.run(&["find", "-A", "ssh_ca"]).await;
        let deciders = nodes.operator.run(&["find", "-A", "ssh"]).await;
        let is_ready = signers.status.success() && deciders.status.success();
        if is_ready { Ok(()) } else { Err(describe_output(&signers)) }
    })
    .await;
}

async fn copy_key(machines: &SshMachines) {
    let nodes = &machines.nodes;
    nodes
        .machines
        .copy("m1", &nodes.operator.path("acme/keys/ssh-ca.nk"), "/etc/muster/ssh-ca.nk")
        .await;
    nodes.machines.sh("m1", "chmod 600 /etc/muster/ssh-ca.nk").await;
}

/// Logs in to m2 with a certificate, and no other key.
async fn login(machines: &SshMachines, user: &str, command: &str) -> Output {
    let target = node_name("m2");
    let words = ["ssh", "-I", &target, "--certificate", "--address-fact", "address", "--"];
    let options = ["-o", "BatchMode=yes", "-l", user, command];
    machines.nodes.operator.run(&[&words[..], &options].concat()).await
}

/// The command line of such a login, for a caller who cannot use the broker any more.
async fn login_line(machines: &SshMachines) -> String {
    let target = node_name("m2");
    let words = [
        "ssh",
        "-I",
        &target,
        "--certificate",
        "--address-fact",
        "address",
        "--print",
        "--",
        "-o",
        "BatchMode=yes",
        "-l",
        "deploy",
        "id -un",
    ];
    machines.nodes.operator.run_successfully(&words).await
}

#[expect(clippy::disallowed_types, reason = "runs OpenSSH's client")]
async fn run_line(line: &str) -> Output {
    tokio::process::Command::new("sh").args(["-c", line]).output().await.unwrap()
}

fn assert_refused(output: &Output) {
    assert_eq!(output.status.code(), Some(255), "{}", describe_output(output));
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(errors.contains("Permission denied"), "{errors}");
}

fn assert_deploy(output: &Output) {
    assert_eq!(output.status.code(), Some(0), "{}", describe_output(output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "deploy\n");
}

async fn await_login(line: &str, is_accepted: bool) {
    poll_until_ok("the login is decided as expected", RECOVERY_TIMEOUT, async || {
        let output = run_line(line).await;
        if output.status.success() == is_accepted { Ok(()) } else { Err(describe_output(&output)) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_permit_what_the_policy_permits_and_no_more() {
    let Some(machines) = SshMachines::start().await else { return };
    prepare(&machines).await;
    let (nodes, m2) = (&machines.nodes, "m2");
    poll_until_ok("the first login succeeds", RECOVERY_TIMEOUT, async || {
        let output = login(&machines, "deploy", "id -un").await;
        if output.status.success() { Ok(()) } else { Err(describe_output(&output)) }
    })
    .await;
    assert_deploy(&login(&machines, "deploy", "id -un").await);
    assert_refused(&login(&machines, "root", "id -un").await);
    nodes
        .machines
        .sh(m2, "test ! -e /root/.ssh/authorized_keys && test ! -e /home/deploy/.ssh")
        .await;
    let shown = poll_until_ok("both decisions are recorded", RECOVERY_TIMEOUT, async || {
        let shown = nodes.machines.sh(m2, SHOW_LOGINS).await;
        if shown.lines().count() == 2 { Ok(shown) } else { Err(shown) }
    })
    .await;
    let mut lines = shown.lines();
    for (verdict, user) in [("executed", "deploy"), ("denied", "root")] {
        let line = lines.next().unwrap();
        for part in [
            format!("\"verdict\":\"{verdict}\""),
            format!("\"user\":\"{user}\""),
            "\"key_id\":\"muster1:rip:".to_owned(),
        ] {
            assert!(line.contains(&part), "{part}: {line}");
        }
    }
    // sshd names the same key id.
    let journal = nodes
        .machines
        .sh(m2, "journalctl -u ssh -o cat | grep 'Accepted publickey for deploy'")
        .await;
    assert!(journal.contains("ID muster1:rip:"), "{journal}");

    let line = login_line(&machines).await;
    measure_login(&line).await;
    refuse_others(&machines, &line).await;
    rotate(&machines, &line).await;

    let line = login_line(&machines).await;
    assert_deploy(&run_line(&line).await);
    nodes.machines.sh(m2, "systemctl stop rpcd").await;
    assert_refused(&run_line(&line).await);
    nodes.machines.sh(m2, "systemctl start rpcd").await;
    await_login(&line, true).await;

    nodes.operator.run_successfully(&["org", "revoke", "rip", "--yes"]).await;
    await_login(&line, false).await;
    assert_refused(&run_line(&line).await);
    poll_until_ok("the refusal is recorded", RECOVERY_TIMEOUT, async || {
        let last = nodes.machines.sh(m2, "cat /var/log/muster/audit-refusals.log").await;
        if last.contains("\"reason\":\"revoked\"") { Ok(()) } else { Err(last) }
    })
    .await;
}

/// Prints how long a login with a certificate takes. The time is a figure, and no condition of the test.
#[expect(clippy::print_stdout, reason = "a figure")]
async fn measure_login(line: &str) {
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let started = Instant::now();
        assert_deploy(&run_line(line).await);
        times.push(started.elapsed());
    }
    times.sort_unstable();
    println!("login with a certificate: median {:?}", times.get(ROUNDS / 2).copied().unwrap());
}

/// A certificate without its key, a certificate of another authority, and an expired one.
async fn refuse_others(machines: &SshMachines, line: &str) {
    let operator = &machines.nodes.operator;
    let [stolen, key] = ["stolen", "key"].map(|name| operator.path(name));
    let (stolen, key) = (stolen.to_str().unwrap(), key.to_str().unwrap());
    let make = format!(
        "ssh-keygen -q -t ed25519 -N '' -f {key} && ssh-keygen -q -t ed25519 -N '' -f {stolen} && ssh-keygen -q -t ed25519 -N '' -f {stolen}.ca"
    );
    assert!(run_line(&make).await.status.success());
    let present =
        line.split_whitespace().find_map(|word| word.strip_prefix("IdentityFile=")).unwrap();
    let replaced = |name: &str| {
        line.replace(&format!("IdentityFile={present}"), &format!("IdentityFile={name}"))
    };
    // The server refuses another key's signature; the client does not even offer it.
    assert_refused(&run_line(&replaced(stolen)).await);
    let other = |certificate: &str| {
        let own = format!("CertificateFile={present}-cert.pub");
        replaced(key).replace(&own, &format!("CertificateFile={certificate}"))
    };
    let sign =
        format!("ssh-keygen -q -s {stolen}.ca -I muster1:rip:x -n rip,deploy -V +1h {key}.pub");
    assert!(run_line(&sign).await.status.success());
    assert_refused(&run_line(&other(&format!("{key}-cert.pub"))).await);

    let public = format!("{key}.pub");
    let words = ["org", "ssh-ca", "sign", "rip", "--key", &public, "--lifetime"];
    let offline = operator.run_successfully(&[&words[..], &["1h"]].concat()).await;
    std::fs::write(operator.path("offline-cert.pub"), offline).unwrap();
    let path = operator.path("offline-cert.pub");
    assert_deploy(&run_line(&other(path.to_str().unwrap())).await);
    let short = operator.run_successfully(&[&words[..], &["1s"]].concat()).await;
    std::fs::write(operator.path("short-cert.pub"), short).unwrap();
    let path = operator.path("short-cert.pub");
    await_login(&other(path.to_str().unwrap()), false).await;
}

/// Certificates of both keys are accepted until the rotation is finished, and then those of the new one.
async fn rotate(machines: &SshMachines, line: &str) {
    let operator = &machines.nodes.operator;
    let present =
        line.split_whitespace().find_map(|word| word.strip_prefix("CertificateFile=")).unwrap();
    let old = operator.path("old-cert.pub");
    std::fs::copy(present, &old).unwrap();
    let old_line = line.replace(present, old.to_str().unwrap());
    operator.run_successfully(&["org", "rotate", "ssh-ca"]).await;
    copy_key(machines).await;
    std::fs::remove_file(present).unwrap();
    poll_until_ok("a certificate of the new key is accepted", RECOVERY_TIMEOUT, async || {
        let output = login(machines, "deploy", "id -un").await;
        if output.status.success() { Ok(()) } else { Err(describe_output(&output)) }
    })
    .await;
    assert_ne!(std::fs::read(present).unwrap(), std::fs::read(&old).unwrap());
    assert_deploy(&run_line(&old_line).await);
    operator.run_successfully(&["org", "rotate", "ssh-ca", "--finish"]).await;
    await_login(&old_line, false).await;
    assert_deploy(&run_line(line).await);
}
