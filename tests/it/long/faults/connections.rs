//! Failing connections between nodes and broker: a third of a fleet is disconnected and comes back, connections break,
//! connections are slow.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use muster_tests::command::{RpcCommand, describe_output};
use muster_tests::fault_proxy::{Disconnect, FaultProxy, NetworkFault};
use muster_tests::organisation::Organisation;
use muster_tests::{await_state, poll_until_ok};
use muster_wire::identity::Identity;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::Value;

use super::call_records::{EffectLog, record_call, verify_records};
use super::{
    LedgerNodes, RECOVERY_TIMEOUT, assert_memory_released, own_memory_kib, print_figures,
    strike_call,
};
use crate::node_fixture::TestCaller;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_open_connections_are_reported_and_recover() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker().await;
    let proxy = FaultProxy::start(&server).await;
    let effects = Arc::<EffectLog>::default();
    let connected = LedgerNodes::start(&organisation, &server, 0..20, &effects).await;
    let disconnected = LedgerNodes::start(&organisation, &proxy, 20..30, &effects).await;
    let names = &connected.names() | &disconnected.names();
    let rip = organisation.caller("rip");
    let caller = TestCaller::connect(&organisation, &server, rip.clone()).await;
    let mut entries =
        vec![record_call(&caller.client, strike_call(&names, RECOVERY_TIMEOUT)).await];
    assert!(entries.iter().all(super::call_records::CallRecord::is_done));
    let before = own_memory_kib();

    proxy.inject(NetworkFault::HalfOpen);
    let entry = record_call(&caller.client, strike_call(&names, Duration::from_secs(2))).await;
    let (stats, _) = entry.finished();
    assert_eq!((stats.ok, &stats.missing), (20, &disconnected.names()));
    // The broker has not detected the failure yet, because no connection was closed.
    assert_eq!(stats.absent, BTreeSet::new());
    entries.push(entry);
    let rpc = RpcCommand::new(&server, &organisation, &rip, "");
    let list: Vec<&str> = names.iter().map(Identity::as_str).collect();
    rpc.write("nodes", &list.join("\n"));
    let nodes = rpc.path("nodes").display().to_string();
    let output = rpc.run(&["do", "rpcutil", "ping", "--nodes", &nodes, "-t", "2"]).await;
    let text = describe_output(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    // The names of many missing nodes are folded.
    assert!(text.contains("node[20-29].example.net"), "{text}");

    proxy.heal();
    poll_until_ok("all nodes have reconnected", RECOVERY_TIMEOUT, async || {
        let entry = record_call(&caller.client, strike_call(&names, Duration::from_secs(2))).await;
        let (done, missing) = (entry.is_done(), entry.finished().0.missing.clone());
        entries.push(entry);
        if done { Ok(()) } else { Err(missing) }
    })
    .await;
    let (document, code) = rpc.run_json(&["do", "rpcutil", "ping", "--nodes", &nodes]).await;
    assert_eq!(code, 0, "{document:#}");
    assert_eq!(document.pointer("/replies").and_then(Value::as_array).map(Vec::len), Some(30));
    // Dropped messages are not sent again, and no request is executed twice.
    print_figures(&format!("{:?}", verify_records(&entries, &effects)));
    assert_memory_released(before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn breaking_connections_lose_no_request_silently() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker().await;
    let (node_proxy, caller_proxy) =
        (FaultProxy::start(&server).await, FaultProxy::start(&server).await);
    let effects = Arc::<EffectLog>::default();
    let nodes = LedgerNodes::start(&organisation, &node_proxy, 0..10, &effects).await;
    let caller =
        TestCaller::connect(&organisation, &caller_proxy, organisation.caller("rip")).await;
    let names = nodes.names();
    let wait = Duration::from_secs(1);
    let finished = AtomicBool::new(false);
    let before = own_memory_kib();
    let call_loop = async {
        let mut entries = Vec::new();
        while !finished.load(Ordering::Acquire) {
            entries.push(record_call(&caller.client, strike_call(&names, wait)).await);
        }
        entries
    };
    let seed = 20_261_122;
    print_figures(&format!("seed {seed}"));
    let mut rng = StdRng::seed_from_u64(seed);
    let cut_loop = async {
        for round in 0..18 {
            let so_far = effects.total();
            let more = rng.random_range(1..40);
            await_state("nodes are working", || effects.total() > so_far + more).await;
            let how = if rng.random() { Disconnect::Reset } else { Disconnect::Close };
            match round % 3 {
                0 => caller_proxy.cut(how),
                1 => node_proxy.cut(how),
                _ => {
                    let connections = node_proxy.connections();
                    let selected = connections.get(rng.random_range(0..connections.len().max(1)));
                    if let Some(one) = selected {
                        node_proxy.cut_one(*one, how);
                    }
                }
            }
        }
        finished.store(true, Ordering::Release);
    };
    let (mut entries, ()) = tokio::join!(call_loop, cut_loop);
    poll_until_ok("all nodes reply", RECOVERY_TIMEOUT, async || {
        let entry = record_call(&caller.client, strike_call(&names, wait)).await;
        let done = entry.is_done();
        entries.push(entry);
        done.then_some(()).ok_or(())
    })
    .await;
    print_figures(&format!("{} calls: {:?}", entries.len(), verify_records(&entries, &effects)));
    assert_memory_released(before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_connection_loses_no_reply() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker().await;
    let proxy = FaultProxy::start(&server).await;
    let effects = Arc::<EffectLog>::default();
    let nodes = LedgerNodes::start(&organisation, &proxy, 0..10, &effects).await;
    let caller = TestCaller::connect(&organisation, &server, organisation.caller("rip")).await;
    let mut entries = Vec::new();
    for fault in [NetworkFault::Delay(Duration::from_millis(700)), NetworkFault::Throttle(8_000)] {
        proxy.inject(fault);
        let entry =
            record_call(&caller.client, strike_call(&nodes.names(), RECOVERY_TIMEOUT)).await;
        assert!(entry.is_done(), "{fault:?}: {:?}", entry.finished().0);
        entries.push(entry);
    }
    assert_eq!(verify_records(&entries, &effects).answered, 20);
    assert!(nodes.cores().all(|core| core.snapshot_counters().replayed == 0));
}
