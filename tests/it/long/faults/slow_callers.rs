//! Callers that read too slowly, at the broker's end or at their own: the client reports the loss, and other
//! callers are not affected.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use muster_calls::{
    CallEvent, CallStats, CallTarget, Client, ConnectionDisturbance, DiscoveryWindow, RpcCall,
};
use muster_filter::NodeFilter;
use muster_tests::fault_proxy::{FaultProxy, NetworkFault};
use muster_tests::nats_server::{NETWORK_TIMEOUT, NatsServer};
use muster_tests::organisation::{Organisation, options};
use serde_json::json;
use tokio::time::timeout;

use super::LedgerNodes;
use super::call_records::{EffectLog, record_call};
use crate::node_fixture::{TestCaller, to_object};

/// Longer than the transfer takes, and shorter than the timeout of a test.
const LONG_WAIT: Duration = Duration::from_secs(15);

/// A call whose replies exceed what sockets can buffer when 40 nodes reply.
fn large_call(target: CallTarget) -> RpcCall {
    let mut call = RpcCall::new("filler", "fill", target).unwrap();
    call.data = to_object(json!({"bytes": 500_000}));
    call.wait = Duration::from_secs(15);
    call
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_caller_is_informed_and_others_are_not_affected() {
    let organisation = Organisation::new(&["muster"]);
    let configuration = format!("{}max_pending: 1048576\n", organisation.broker_configuration());
    let server = NatsServer::start(&configuration).await;
    let proxy = FaultProxy::start(&server).await;
    let effects = Arc::<EffectLog>::default();
    let nodes = LedgerNodes::start(&organisation, &server, 0..40, &effects).await;
    let slow = TestCaller::connect(&organisation, &proxy, organisation.caller("slow")).await;
    let quick = TestCaller::connect(&organisation, &server, organisation.caller("quick")).await;
    proxy.inject(NetworkFault::Throttle(3_000_000));
    let slow_call = async {
        let entry = record_call(&slow.client, large_call(CallTarget::Nodes(nodes.names()))).await;
        let (stats, _) = entry.finished();
        // Every node is accounted for, and the loss is attributed to the connection.
        assert_eq!(stats.response_count() + stats.missing.len(), 40, "{stats:?}");
        assert!(!stats.missing.is_empty(), "{stats:?}");
        assert_eq!(stats.incomplete, Some(ConnectionDisturbance::Reconnected), "{stats:?}");
    };
    let quick_calls = async {
        for _ in 0..10 {
            let mut call = large_call(CallTarget::Nodes(nodes.names()));
            call.data = to_object(json!({"bytes": 100}));
            let entry = record_call(&quick.client, call).await;
            assert!(entry.is_done(), "{:?}", entry.finished().0);
        }
    };
    tokio::join!(slow_call, quick_calls);
    // With an unknown number of nodes, a loss could otherwise go unnoticed.
    let mut events = slow.client.call(large_call(CallTarget::Filter(NodeFilter::default())));
    let stats = loop {
        match timeout(NETWORK_TIMEOUT, events.next()).await.unwrap().unwrap() {
            CallEvent::Finished(stats) => break stats,
            CallEvent::Failed(error) => panic!("{error}"),
            _ => {}
        }
    };
    assert!(stats.response_count() < 40, "{stats:?}");
    assert_eq!(stats.incomplete, Some(ConnectionDisturbance::Reconnected), "{stats:?}");
    proxy.heal();
    let again = record_call(&slow.client, {
        let mut call = large_call(CallTarget::Nodes(nodes.names()));
        call.data = to_object(json!({"bytes": 10}));
        call
    });
    assert!(again.await.is_done());
}

/// 400 known nodes reply with this many bytes each to a caller on this link; every reply must arrive.
async fn receive_all_over_link(reply_bytes: usize, bytes_per_second: u32, wait: Duration) {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker().await;
    let proxy = FaultProxy::start(&server).await;
    let effects = Arc::<EffectLog>::default();
    let nodes = LedgerNodes::start(&organisation, &server, 0..400, &effects).await;
    let caller = TestCaller::connect(&organisation, &proxy, organisation.caller("rip")).await;
    proxy.inject(NetworkFault::SlowLink { delay: Duration::from_millis(10), bytes_per_second });
    let mut call = large_call(CallTarget::Nodes(nodes.names()));
    call.data = to_object(json!({"bytes": reply_bytes}));
    call.wait = wait;
    let entry = record_call(&caller.client, call).await;
    let (stats, _) = entry.finished();
    assert_eq!((stats.ok, stats.incomplete), (400, None), "{stats:?}");
    assert!(stats.missing.is_empty() && stats.unsent.is_empty(), "{stats:?}");
}

/// The broker keeps at most 64 MiB for a connection. Replies of 80 MB in all would exceed that if all nodes were asked at once. The wait is shorter than
/// the transfer: the time counts from each node's own request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_caller_receives_every_reply_of_known_nodes() {
    receive_all_over_link(200_000, 12_500_000, Duration::from_secs(4)).await;
}

/// A broker closes a connection that does not take all that is pending in 10 s: 8.75 MB at 7 Mbit/s, half of these replies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn caller_on_a_very_slow_link_receives_every_reply_of_known_nodes() {
    receive_all_over_link(40_000, 7_000_000 / 8, LONG_WAIT).await;
}

/// Calls all nodes and waits this long for the end.
async fn call_all_nodes(client: &Client, wait: Duration) -> CallStats {
    let mut call = large_call(CallTarget::Filter(NodeFilter::default()));
    call.data = to_object(json!({"bytes": 100_000}));
    call.wait = wait;
    let mut events = client.call(call);
    loop {
        match timeout(NETWORK_TIMEOUT, events.next()).await.unwrap().unwrap() {
            CallEvent::Finished(stats) => return *stats,
            CallEvent::Failed(error) => panic!("{error}"),
            _ => {}
        }
    }
}

/// Replies that arrive further apart than a caller waits when it assumes that no node is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_connection_does_not_truncate_replies_silently() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker().await;
    let proxy = FaultProxy::start(&server).await;
    let effects = Arc::<EffectLog>::default();
    let _nodes = LedgerNodes::start(&organisation, &server, 0..10, &effects).await;
    let caller = TestCaller::connect(&organisation, &proxy, organisation.caller("rip")).await;
    proxy.inject(NetworkFault::Throttle(200_000));
    let stats = call_all_nodes(&caller.client, LONG_WAIT).await;
    assert_eq!((stats.ok, stats.incomplete), (10, None), "{stats:?}");
    assert!(stats.publishing >= stats.signing && !stats.signing.is_zero(), "{stats:?}");
    let impatient = Client::new(
        caller.bus.clone(),
        caller.signer.clone(),
        organisation.trust(),
        organisation.collective().clone(),
        DiscoveryWindow { max_wait: Duration::from_millis(1_500), ..DiscoveryWindow::default() },
    );
    let stats = call_all_nodes(&impatient, Duration::from_millis(1_500)).await;
    assert!(stats.ok < 10, "{stats:?}");
    assert_eq!(stats.incomplete, Some(ConnectionDisturbance::SlowConsumer), "{stats:?}");
    // A quiet connection without outstanding replies still ends the call early.
    proxy.heal();
    let stats = call_all_nodes(&caller.client, LONG_WAIT).await;
    assert_eq!((stats.ok, stats.incomplete), (10, None), "{stats:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn caller_is_informed_when_its_buffer_overflows() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker().await;
    let effects = Arc::<EffectLog>::default();
    let nodes = LedgerNodes::start(&organisation, &server, 0..40, &effects).await;
    let rip = organisation.caller("rip");
    let mut options = options(&server, &rip);
    options.inbox_prefix = Some(format!("_INBOX.{}", rip.public_key()));
    options.subscription_capacity = 4;
    let bus = options.connect().await.unwrap();
    let collective = organisation.collective().clone();
    let client =
        Client::new(bus, rip, organisation.trust(), collective, DiscoveryWindow::default());
    let mut lost = BTreeSet::new();
    // All nodes reply at once, and the buffer holds four replies: a reply is lost sooner or later.
    for _ in 0..50 {
        let mut call = RpcCall::new("rpcutil", "ping", CallTarget::Nodes(nodes.names())).unwrap();
        call.wait = Duration::from_millis(500);
        let entry = record_call(&client, call).await;
        let (stats, _) = entry.finished();
        assert_eq!(stats.response_count() + stats.missing.len(), 40, "{stats:?}");
        assert_eq!(stats.incomplete.is_some(), !stats.missing.is_empty(), "{stats:?}");
        lost.extend(stats.incomplete.map(|disturbance| format!("{disturbance:?}")));
        if !lost.is_empty() {
            break;
        }
    }
    assert_eq!(lost, BTreeSet::from(["SlowConsumer".to_owned()]));
}
