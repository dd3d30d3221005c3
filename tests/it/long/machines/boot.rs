//! The machines themselves: booted, they run rpcd; a power cut loses what was not synced, and nothing else.

use serde_json::json;

use crate::machines::nodes::{MachineNodes, NodeOptions};

#[tokio::test(flavor = "multi_thread")]
async fn machines_boot_answer_and_return_after_a_power_cut() {
    let Some(nodes) = MachineNodes::start(2, NodeOptions::default()).await else { return };
    let machines = &nodes.machines;
    assert_eq!(machines.sh("m1", "systemctl is-active rpcd").await, "active");
    // Both names have the same content until a sync; only the synced one remains after a power cut.
    machines.sh("m1", "echo kept >/var/kept; sync -f /var; echo lost >/var/lost").await;
    machines.cut_power(&["m1"]).await;
    nodes.await_answers(1).await;
    machines.power_on(&["m1"]).await;
    nodes.await_answers(2).await;
    assert_eq!(
        machines.sh("m1", "cat /var/kept; ls /var/lost 2>&1 || true").await,
        "kept\nls: cannot access '/var/lost': No such file or directory"
    );
    let reply = nodes.call("m1", &["puppetral", "do", "type=user", "name=anna", "uid=2001"]).await;
    assert_eq!(reply["data"]["changed"], json!(true), "{reply:#}");
    assert_eq!(machines.sh("m1", "id -u anna").await, "2001");
}
