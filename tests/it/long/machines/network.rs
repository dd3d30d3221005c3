//! Faults of the network between machines and broker, under a load of requests that change the nodes: loss, delay, a partition of a
//! third, and half-open connections. The kernels of CI may have no netem, so that loss is nftables' `numgen`, and delay is the
//! queue of a slow `tbf`; both act inside the machines.

use std::time::Duration;

use muster_tests::simulate_delay;

use crate::machines::load::{RequestLoad, compare_records, connect_client};
use crate::machines::nodes::{MachineNodes, NodeOptions};

const MACHINES: usize = 6;
/// How long each fault lasts. A node sends a ping each 30 s at the latest, so a partition outlasts one.
const FAULT_TIME: Duration = Duration::from_secs(8);
const PARTITION_TIME: Duration = Duration::from_secs(45);

/// Drops one of ten packets in each direction.
const LOSS: &str = "nft 'table inet fault { \
    chain i { type filter hook input priority 0; numgen random mod 10 == 0 drop; }; \
    chain o { type filter hook output priority 0; numgen random mod 10 == 0 drop; }; }'";
/// Drops what arrives from the broker, and nothing that is sent to it.
const HALF_OPEN: &str = "nft 'table inet fault { \
    chain i { type filter hook input priority 0; iifname \"host0\" drop; }; }'";
const NO_RULES: &str = "nft delete table inet fault";
/// 256 kbit/s behind a queue of up to 2 s.
const DELAY: &str = "tc qdisc add dev host0 root tbf rate 256kbit burst 2000 latency 2s";
const NO_DELAY: &str = "tc qdisc del dev host0 root";

#[tokio::test(flavor = "multi_thread")]
async fn network_faults_lose_no_request_without_a_report_and_repeat_none() {
    let options = NodeOptions {
        configuration: "[plugins.shell]\nenabled = true\n",
        ..NodeOptions::default()
    };
    let Some(nodes) = MachineNodes::start(MACHINES, options).await else { return };
    let machines = &nodes.machines;
    let names: Vec<String> = machines.names().iter().map(|name| (*name).to_owned()).collect();
    let third: &[String] = names.get(..MACHINES / 3).unwrap();
    let others: &[String] = names.get(MACHINES / 3..).unwrap();
    let load = RequestLoad::start(connect_client(&nodes.operator).await, names.clone(), 20);

    for (begin, end) in [(LOSS, NO_RULES), (DELAY, NO_DELAY)] {
        for machine in &names {
            machines.sh(machine, begin).await;
        }
        simulate_delay(FAULT_TIME).await;
        for machine in &names {
            machines.sh(machine, end).await;
        }
        nodes.await_answers(MACHINES).await;
    }

    for machine in third {
        machines.set_link(machine, false).await;
    }
    simulate_delay(PARTITION_TIME).await;
    nodes.await_answers(others.len()).await;
    for machine in third {
        machines.set_link(machine, true).await;
    }
    nodes.await_answers(MACHINES).await;

    for machine in third {
        machines.sh(machine, HALF_OPEN).await;
    }
    simulate_delay(FAULT_TIME).await;
    for machine in third {
        machines.sh(machine, NO_RULES).await;
    }
    nodes.await_answers(MACHINES).await;

    let records = load.finish().await;
    let summary = compare_records(machines, &records).await;
    println!("{} requests: {summary:?}", records.len());
    let always_connected = records.len() * others.len() / MACHINES;
    assert!(
        summary.succeeded * 100 >= always_connected * 90,
        "{} of {} requests succeeded: {summary:?}",
        summary.succeeded,
        records.len()
    );
    for machine in machines.names() {
        assert_eq!(
            machines.sh(machine, "systemctl show -P NRestarts rpcd").await,
            "0",
            "{machine}"
        );
    }
}
