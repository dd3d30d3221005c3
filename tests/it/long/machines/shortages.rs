//! A machine without free disk, without a writable /var, without memory, and with a wrong clock: the daemon stays, says so, and
//! works again afterwards.

use serde_json::Value;

use crate::machines::nodes::{MachineNodes, NodeOptions};

const CONFIGURATION: &str = "[plugins.shell]\nenabled = true\n";

/// Takes all space of the disk for root too, and syncs so that it is really taken.
const FILL_DISK: &str = "fallocate -l 3500M /var/fill || true; dd if=/dev/zero of=/var/fill2 bs=1M 2>&- || true; sync -f /var; \
    dd if=/dev/zero of=/var/fill3 bs=1k 2>&- || true";
/// 512 MiB for the whole machine.
const MEMORY_BYTES: u64 = 512 << 20;

fn statuscode(reply: &Value) -> Option<u64> {
    reply.get("statuscode")?.as_u64()
}

fn write_file(content: &str) -> [String; 5] {
    let words = ["puppetral", "do", "type=file", "name=/etc/motd"].map(str::to_owned);
    let [first, second, third, fourth] = words;
    [first, second, third, fourth, format!("content={content}")]
}

async fn change(nodes: &MachineNodes, content: &str) -> Value {
    let words = write_file(content);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    nodes.call("m1", &words).await
}

#[tokio::test(flavor = "multi_thread")]
async fn full_or_read_only_disk_refuses_changes_and_recovers() {
    let options = NodeOptions { configuration: CONFIGURATION, ..NodeOptions::default() };
    let Some(nodes) = MachineNodes::start(1, options).await else { return };
    let machines = &nodes.machines;
    assert_eq!(statuscode(&change(&nodes, "before").await), Some(0));

    machines.sh("m1", FILL_DISK).await;
    nodes.await_answers(1).await;
    let reply = change(&nodes, &"full".repeat(20_000)).await;
    assert_ne!(statuscode(&reply), Some(0), "{reply:#}");
    assert_eq!(machines.sh("m1", "cat /etc/motd").await, "before");
    machines.sh("m1", "rm /var/fill*; sync -f /var").await;
    assert_eq!(statuscode(&change(&nodes, "after").await), Some(0));
    assert_eq!(machines.sh("m1", "cat /etc/motd").await, "after");

    // A daemon that starts while /var is read-only replies, and must not make changes that it cannot record.
    machines.sh("m1", "mount --bind /var /var && mount -o remount,ro,bind /var && systemctl restart --no-block rpcd").await;
    machines.await_script("m1", "journalctl -u rpcd | grep -qi 'read-only file system'").await;
    nodes.await_answers(1).await;
    let (document, code) = nodes
        .operator
        .run_json(&[
            "do",
            "puppetral",
            "do",
            "type=file",
            "name=/etc/motd",
            "content=never",
            "-I",
            "m1.example.net",
        ])
        .await;
    assert_ne!(code, 0, "{document:#}");
    assert_eq!(machines.sh("m1", "cat /etc/motd").await, "after");
    machines.sh("m1", "systemctl stop rpcd && umount /var && systemctl start rpcd").await;
    nodes.await_answers(1).await;
    assert_eq!(statuscode(&change(&nodes, "again").await), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn action_that_exhausts_the_memory_fails_alone() {
    let options = NodeOptions { configuration: CONFIGURATION, ..NodeOptions::default() };
    let Some(nodes) = MachineNodes::start(1, options).await else { return };
    let machines = &nodes.machines;
    machines.limit_memory("m1", MEMORY_BYTES).await;
    let pid = machines.sh("m1", "systemctl show -P MainPID rpcd").await;
    // `tail` keeps a line without an end in memory.
    let reply = nodes.call("m1", &["shell", "run", "script=tail /dev/zero"]).await;
    assert_ne!(statuscode(&reply), Some(0), "{reply:#}");
    nodes.await_answers(1).await;
    assert_eq!(machines.sh("m1", "systemctl show -P MainPID rpcd").await, pid);
    assert_eq!(statuscode(&change(&nodes, "after").await), Some(0));
}

/// Only the daemon's clock is faked: machines share the clock of this host, which is never set.
#[tokio::test(flavor = "multi_thread")]
async fn clock_steps_refuse_requests_until_the_clock_is_right() {
    let options = NodeOptions { configuration: CONFIGURATION, ..NodeOptions::default() };
    let Some(nodes) = MachineNodes::start(1, options).await else { return };
    let machines = &nodes.machines;
    let faked = "mkdir -p /etc/systemd/system/rpcd.service.d && cat >/etc/systemd/system/rpcd.service.d/clock.conf <<'END'\n\
        [Service]\n\
        Environment=LD_PRELOAD=/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1\n\
        Environment=FAKETIME_TIMESTAMP_FILE=/etc/faketime FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1\n\
        END\n\
        echo +0 >/etc/faketime; systemctl daemon-reload; systemctl restart rpcd";
    machines.sh("m1", faked).await;
    nodes.await_answers(1).await;
    for step in ["+2h", "-2h", "+400d"] {
        machines.sh("m1", &format!("echo {step} >/etc/faketime")).await;
        let words = [
            "do",
            "puppetral",
            "do",
            "type=file",
            "name=/etc/motd",
            "content=wrong",
            "-I",
            "m1.example.net",
            "--timeout",
            "5",
        ];
        let (document, code) = nodes.operator.run_json(&words).await;
        assert_ne!(code, 0, "{step}: {document:#}");
        machines.sh("m1", "echo +0 >/etc/faketime").await;
        nodes.await_answers(1).await;
        let reply = change(&nodes, step).await;
        assert_eq!(statuscode(&reply), Some(0), "{step}: {reply:#}");
        assert_eq!(machines.sh("m1", "cat /etc/motd").await, step);
    }
    assert_eq!(machines.sh("m1", "systemctl show -P NRestarts rpcd").await, "0");
}
