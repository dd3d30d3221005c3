//! Callers that read too slowly: at their broker's end, and at their own. They are told that answers were lost, and cost nobody else anything.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use muster_client::{
    CallEvent, CallStats, CallTarget, Client, ConnectionDisturbance, DiscoveryWindow, RpcCall,
};
use muster_filter::NodeFilter;
use muster_tests::fault_proxy::{FaultProxy, NetworkFault};
use muster_tests::nats_server::{NatsServer, PATIENCE};
use muster_tests::organisation::{Organisation, options};
use serde_json::json;
use tokio::time::timeout;

use super::Nodes;
use super::books::{Effects, ask};
use crate::ask::{TestCaller, to_object};

/// Longer than it takes, and shorter than a test waits for what happens next.
const LONG: Duration = Duration::from_secs(15);

/// More than what waits in sockets on the way, when forty nodes answer it.
fn much(aim: CallTarget) -> RpcCall {
    let mut call = RpcCall::new("ledger", "fill", aim).unwrap();
    call.data = to_object(json!({"bytes": 500_000}));
    call.wait = Duration::from_secs(15);
    call
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_reads_too_slowly_is_told_and_others_are_unharmed() {
    let organisation = Organisation::new(&["muster"]);
    let configuration = format!("{}max_pending: 1048576\n", organisation.broker_configuration());
    let server = NatsServer::start(&configuration).await;
    let proxy = FaultProxy::start(&server).await;
    let effects = Arc::<Effects>::default();
    let nodes = Nodes::start(&organisation, &server, 0..40, &effects).await;
    let slow = TestCaller::connect(&organisation, &proxy, organisation.caller("slow")).await;
    let quick = TestCaller::connect(&organisation, &server, organisation.caller("quick")).await;
    proxy.inject(NetworkFault::Throttle(3_000_000));
    let named = async {
        let entry = ask(&slow.client, much(CallTarget::Nodes(nodes.names()))).await;
        let (stats, _) = entry.told();
        // Every node is accounted for, and that it is not the nodes' fault is said.
        assert_eq!(stats.response_count() + stats.missing.len(), 40, "{stats:?}");
        assert!(!stats.missing.is_empty(), "{stats:?}");
        assert_eq!(stats.incomplete, Some(ConnectionDisturbance::Reconnected), "{stats:?}");
    };
    let meanwhile = async {
        for _ in 0..10 {
            let mut call = much(CallTarget::Nodes(nodes.names()));
            call.data = to_object(json!({"bytes": 100}));
            let entry = ask(&quick.client, call).await;
            assert!(entry.is_done(), "{:?}", entry.told().0);
        }
    };
    tokio::join!(named, meanwhile);
    // A list whose length nobody knows is the one that could be short in silence.
    let mut events = slow.client.call(much(CallTarget::Filter(NodeFilter::default())));
    let stats = loop {
        match timeout(PATIENCE, events.next()).await.unwrap().unwrap() {
            CallEvent::Finished(stats) => break stats,
            CallEvent::Failed(error) => panic!("{error}"),
            _ => {}
        }
    };
    assert!(stats.response_count() < 40, "{stats:?}");
    assert_eq!(stats.incomplete, Some(ConnectionDisturbance::Reconnected), "{stats:?}");
    proxy.heal();
    let again = ask(&slow.client, {
        let mut call = much(CallTarget::Nodes(nodes.names()));
        call.data = to_object(json!({"bytes": 10}));
        call
    });
    assert!(again.await.is_done());
}

/// Asks whoever is there, and waits so long for the end of it.
async fn everybody(client: &Client, wait: Duration) -> CallStats {
    let mut call = much(CallTarget::Filter(NodeFilter::default()));
    call.data = to_object(json!({"bytes": 100_000}));
    call.wait = wait;
    let mut events = client.call(call);
    loop {
        match timeout(PATIENCE, events.next()).await.unwrap().unwrap() {
            CallEvent::Finished(stats) => return *stats,
            CallEvent::Failed(error) => panic!("{error}"),
            _ => {}
        }
    }
}

/// Answers that come one by one, further apart than a caller waits who believes that nobody else is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_unknown_length_is_not_cut_short_in_silence_by_a_slow_line() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker().await;
    let proxy = FaultProxy::start(&server).await;
    let effects = Arc::<Effects>::default();
    let _nodes = Nodes::start(&organisation, &server, 0..10, &effects).await;
    let caller = TestCaller::connect(&organisation, &proxy, organisation.caller("rip")).await;
    proxy.inject(NetworkFault::Throttle(200_000));
    let stats = everybody(&caller.client, LONG).await;
    assert_eq!((stats.ok, stats.incomplete), (10, None), "{stats:?}");
    let hasty = Client::new(
        caller.bus.clone(),
        caller.signer.clone(),
        organisation.trust(),
        organisation.collective().clone(),
        DiscoveryWindow { max_wait: Duration::from_millis(1_500), ..DiscoveryWindow::default() },
    );
    let stats = everybody(&hasty, Duration::from_millis(1_500)).await;
    assert!(stats.ok < 10, "{stats:?}");
    assert_eq!(stats.incomplete, Some(ConnectionDisturbance::SlowConsumer), "{stats:?}");
    // What is quiet because there is nothing more to say ends as soon as before.
    proxy.heal();
    let stats = everybody(&caller.client, LONG).await;
    assert_eq!((stats.ok, stats.incomplete), (10, None), "{stats:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_whose_own_buffer_overflows_is_told() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker().await;
    let effects = Arc::<Effects>::default();
    let nodes = Nodes::start(&organisation, &server, 0..40, &effects).await;
    let rip = organisation.caller("rip");
    let mut options = options(&server, &rip);
    options.inbox_prefix = Some(format!("_INBOX.{}", rip.public_key()));
    options.subscription_capacity = 4;
    let bus = options.connect().await.unwrap();
    let collective = organisation.collective().clone();
    let client =
        Client::new(bus, rip, organisation.trust(), collective, DiscoveryWindow::default());
    let mut lost = BTreeSet::new();
    // Everybody answers at once, and only four answers have room: sooner or later one falls out.
    for _ in 0..50 {
        let mut call = RpcCall::new("rpcutil", "ping", CallTarget::Nodes(nodes.names())).unwrap();
        call.wait = Duration::from_millis(500);
        let entry = ask(&client, call).await;
        let (stats, _) = entry.told();
        assert_eq!(stats.response_count() + stats.missing.len(), 40, "{stats:?}");
        assert_eq!(stats.incomplete.is_some(), !stats.missing.is_empty(), "{stats:?}");
        lost.extend(stats.incomplete.map(|disturbance| format!("{disturbance:?}")));
        if !lost.is_empty() {
            break;
        }
    }
    assert_eq!(lost, BTreeSet::from(["SlowConsumer".to_owned()]));
}
