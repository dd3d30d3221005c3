//! Lines between nodes and broker that fail: a third of a fleet that is cut off and comes back, connections that break, lines that are slow.

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

use super::books::{Effects, ask, compare};
use super::{BACK, Nodes, assert_memory_is_back, note, our_memory, strike};
use crate::ask::TestCaller;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_third_of_the_fleet_behind_a_dead_line_is_named_and_comes_back_by_itself() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker().await;
    let proxy = FaultProxy::start(&server).await;
    let effects = Arc::<Effects>::default();
    let near = Nodes::start(&organisation, &server, 0..20, &effects).await;
    let far = Nodes::start(&organisation, &proxy, 20..30, &effects).await;
    let names = &near.names() | &far.names();
    let rip = organisation.caller("rip");
    let caller = TestCaller::connect(&organisation, &server, rip.clone()).await;
    let mut entries = vec![ask(&caller.client, strike(&names, BACK)).await];
    assert!(entries.iter().all(super::books::Entry::is_done));
    let before = our_memory();

    proxy.inject(NetworkFault::HalfOpen);
    let entry = ask(&caller.client, strike(&names, Duration::from_secs(2))).await;
    let (stats, _) = entry.describe_output();
    assert_eq!((stats.ok, &stats.missing), (20, &far.names()));
    // The broker does not know it yet: nobody has said goodbye.
    assert_eq!(stats.absent, BTreeSet::new());
    entries.push(entry);
    let rpc = RpcCommand::new(&server, &organisation, &rip, "");
    let list: Vec<&str> = names.iter().map(Identity::as_str).collect();
    rpc.write("nodes", &list.join("\n"));
    let nodes = rpc.path("nodes").display().to_string();
    let output = rpc.run(&["do", "rpcutil", "ping", "--nodes", &nodes, "-t", "2"]).await;
    let said = describe_output(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(far.names().iter().all(|node| said.contains(node.as_str())), "{said}");

    proxy.heal();
    poll_until_ok("all are back by themselves", BACK, async || {
        let entry = ask(&caller.client, strike(&names, Duration::from_secs(2))).await;
        let (done, missing) = (entry.is_done(), entry.describe_output().0.missing.clone());
        entries.push(entry);
        if done { Ok(()) } else { Err(missing) }
    })
    .await;
    let (document, code) = rpc.run_json(&["do", "rpcutil", "ping", "--nodes", &nodes]).await;
    assert_eq!(code, 0, "{document:#}");
    assert_eq!(document.pointer("/replies").and_then(Value::as_array).map(Vec::len), Some(30));
    // What was swallowed is not sent again, and what was asked is not done a second time.
    note(&format!("{:?}", compare(&entries, &effects)));
    assert_memory_is_back(before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_break_at_random_moments_lose_no_request_untold() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker().await;
    let (of_nodes, of_caller) =
        (FaultProxy::start(&server).await, FaultProxy::start(&server).await);
    let effects = Arc::<Effects>::default();
    let nodes = Nodes::start(&organisation, &of_nodes, 0..10, &effects).await;
    let caller = TestCaller::connect(&organisation, &of_caller, organisation.caller("rip")).await;
    let names = nodes.names();
    let wait = Duration::from_secs(1);
    let over = AtomicBool::new(false);
    let before = our_memory();
    let asking = async {
        let mut entries = Vec::new();
        while !over.load(Ordering::Acquire) {
            entries.push(ask(&caller.client, strike(&names, wait)).await);
        }
        entries
    };
    let seed = 20_261_122;
    note(&format!("seed {seed}"));
    let mut dice = StdRng::seed_from_u64(seed);
    let cutting = async {
        for round in 0..18 {
            let so_far = effects.total();
            let more = dice.random_range(1..40);
            await_state("nodes are at work", || effects.total() > so_far + more).await;
            let how = if dice.random() { Disconnect::Reset } else { Disconnect::Close };
            match round % 3 {
                0 => of_caller.cut(how),
                1 => of_nodes.cut(how),
                _ => {
                    let connections = of_nodes.connections();
                    let unlucky = connections.get(dice.random_range(0..connections.len().max(1)));
                    if let Some(one) = unlucky {
                        of_nodes.cut_one(*one, how);
                    }
                }
            }
        }
        over.store(true, Ordering::Release);
    };
    let (mut entries, ()) = tokio::join!(asking, cutting);
    poll_until_ok("all answer", BACK, async || {
        let entry = ask(&caller.client, strike(&names, wait)).await;
        let done = entry.is_done();
        entries.push(entry);
        done.then_some(()).ok_or(())
    })
    .await;
    note(&format!("{} calls: {:?}", entries.len(), compare(&entries, &effects)));
    assert_memory_is_back(before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_line_costs_time_and_no_answer() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker().await;
    let proxy = FaultProxy::start(&server).await;
    let effects = Arc::<Effects>::default();
    let nodes = Nodes::start(&organisation, &proxy, 0..10, &effects).await;
    let caller = TestCaller::connect(&organisation, &server, organisation.caller("rip")).await;
    let mut entries = Vec::new();
    for fault in [NetworkFault::Delay(Duration::from_millis(700)), NetworkFault::Throttle(8_000)] {
        proxy.inject(fault);
        let entry = ask(&caller.client, strike(&nodes.names(), BACK)).await;
        assert!(entry.is_done(), "{fault:?}: {:?}", entry.describe_output().0);
        entries.push(entry);
    }
    assert_eq!(compare(&entries, &effects).answered, 20);
    assert!(nodes.cores().all(|core| core.snapshot_counters().replayed == 0));
}
