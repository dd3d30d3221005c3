//! Requests to many nodes from a caller on a slow link: stored at the broker once for a group of nodes, which are sent references. A node that
//! cannot read them is sent the request itself.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use muster_bus::{Bus, BusSubscription, Bytes};
use muster_calls::{CallStats, CallTarget, RpcCall};
use muster_tests::fault_proxy::{FaultProxy, NetworkFault};
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::{Organisation, connect};
use muster_wire::identity::Identity;
use muster_wire::subject::{self, AnswerAddress};
use uuid::Uuid;

use super::LedgerNodes;
use super::call_records::{EffectLog, record_call};
use crate::node_fixture::TestCaller;

const NODES: usize = 300;
/// Nodes that are sent the request itself, to measure the link.
const SAMPLE: usize = 64;
const MAX_BYTES_PER_NODE: u64 = 300;

/// A fleet, and a caller behind a link of 7 Mbit/s and 10 ms in each direction.
struct SlowCaller {
    organisation: Organisation,
    server: NatsServer,
    proxy: FaultProxy,
    nodes: LedgerNodes,
    caller: TestCaller,
    effects: Arc<EffectLog>,
}

impl SlowCaller {
    async fn new(has_stores: bool) -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = if has_stores {
            organisation.start_broker_with_stores().await
        } else {
            organisation.start_broker().await
        };
        let proxy = FaultProxy::start(&server).await;
        let effects = Arc::<EffectLog>::default();
        let nodes = LedgerNodes::start(&organisation, &server, 0..NODES, &effects).await;
        let caller = TestCaller::connect(&organisation, &proxy, organisation.caller("rip")).await;
        let delay = Duration::from_millis(10);
        proxy.inject(NetworkFault::SlowLink { delay, bytes_per_second: 7_000_000 / 8 });
        Self { organisation, server, proxy, nodes, caller, effects }
    }

    /// Makes one change on each node. Returns the bytes that the caller sent.
    async fn call(&self, nodes: BTreeSet<Identity>, wait: Duration) -> (CallStats, u64) {
        let sent_before = self.proxy.traffic().up();
        let record = record_call(&self.caller.client, super::strike_call(&nodes, wait)).await;
        let stats = record.finished().0.clone();
        (stats, self.proxy.traffic().up() - sent_before)
    }

    fn assert_one_effect(&self, stats: &CallStats) {
        for node in self.nodes.names() {
            assert_eq!(self.effects.count(&node, stats.request), 1, "{node}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn caller_on_a_slow_link_sends_300_bytes_a_node() {
    let fixture = SlowCaller::new(true).await;
    let names = fixture.nodes.names();
    let sample = names.iter().take(SAMPLE).cloned().collect();
    let (stats, sample_bytes) = fixture.call(sample, super::RECOVERY_TIMEOUT).await;
    assert_eq!((stats.ok, stats.references), (SAMPLE, 0), "{stats:?}");
    let (stats, bytes) = fixture.call(names, super::RECOVERY_TIMEOUT).await;
    assert_eq!((stats.ok, stats.references), (NODES, NODES - SAMPLE), "{stats:?}");
    fixture.assert_one_effect(&stats);
    let per_node = bytes.saturating_sub(sample_bytes) / u64::try_from(NODES - SAMPLE).unwrap();
    super::print_figures(&format!("{sample_bytes} B for 64 nodes, then {per_node} B per node"));
    assert!(per_node <= MAX_BYTES_PER_NODE, "{per_node} B per node");
}

/// A node without a daemon that records what it is sent.
struct SilentNode {
    bus: Bus,
    identity: Identity,
    requests: BusSubscription,
    references: Option<BusSubscription>,
}

impl SilentNode {
    async fn start(fixture: &SlowCaller, name: &str, is_current: bool) -> Self {
        let signer = fixture.organisation.node(name);
        let bus = connect(&fixture.server, &signer).await;
        let [_, requests, references] =
            subject::node_subscriptions(fixture.organisation.collective(), signer.identity());
        let requests = bus.subscribe(&requests).await.unwrap();
        let references =
            if is_current { Some(bus.subscribe(&references).await.unwrap()) } else { None };
        bus.confirm_delivery().await.unwrap();
        Self { bus, identity: signer.identity().clone(), requests, references }
    }
}

/// Nodes that are not connected, of an earlier version, or unable to read the stored request: the first are reported, the others are sent the request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_that_cannot_read_the_stored_request_is_sent_it() {
    let fixture = SlowCaller::new(true).await;
    let mut old = SilentNode::start(&fixture, "z-old.example.net", false).await;
    let mut unable = SilentNode::start(&fixture, "z-unable.example.net", true).await;
    let absent = Identity::parse("z-absent.example.net").unwrap();
    let mut names = fixture.nodes.names();
    names.extend([absent.clone(), old.identity.clone(), unable.identity.clone()]);
    let ask_for_whole = async {
        let reference = unable.references.as_mut().unwrap().next().await.unwrap();
        assert_eq!(reference.payload().len(), 32);
        unable.bus.publish(reference.reply_to().unwrap(), Bytes::new()).await.unwrap();
        unable.requests.next().await.unwrap()
    };
    let ((stats, _), whole, old_whole) = tokio::join!(
        fixture.call(names, Duration::from_secs(5)),
        ask_for_whole,
        old.requests.next()
    );
    assert_eq!((stats.ok, stats.references), (NODES, NODES + 3 - SAMPLE), "{stats:?}");
    assert_eq!((&stats.absent, stats.rejected), (&BTreeSet::from([absent]), 0), "{stats:?}");
    assert_eq!(stats.missing.len(), 3, "{stats:?}");
    fixture.assert_one_effect(&stats);
    for message in [whole, old_whole.unwrap()] {
        assert!(message.payload().len() > 300, "{:?}", message.payload());
    }
    assert!(old.requests.try_next().is_none() && unable.requests.try_next().is_none());
}

/// A broker without the bucket, as before `rpc org push` of this version.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broker_without_the_bucket_passes_on_whole_requests() {
    let fixture = SlowCaller::new(false).await;
    let (stats, _) = fixture.call(fixture.nodes.names(), super::RECOVERY_TIMEOUT).await;
    assert_eq!((stats.ok, stats.references), (NODES, 0), "{stats:?}");
    fixture.assert_one_effect(&stats);
}

/// A reference to nothing: the daemon asks for the request itself. Other messages on the subject of references are refused and counted.
#[tokio::test]
async fn false_references_have_no_effect() {
    let fixture = crate::node_fixture::NodeFixture::with_stores(|_| {}).await;
    let node = fixture.node.core.identity().clone();
    let collective = fixture.organisation.collective();
    let (agent, action) = ("rpcutil".parse().unwrap(), "ping".parse().unwrap());
    let target = subject::node_reference(collective, &agent, &action, &node);
    let key = fixture.caller.signer.public_key().to_string();
    let address = AnswerAddress::of_request(&key, &Uuid::now_v7());
    let mut answers = fixture.caller.bus.subscribe(&address.subscription_pattern()).await.unwrap();
    let bus = &fixture.caller.bus;
    let total = || fixture.node.core.snapshot_counters().total;
    let before = total();
    for payload in [&[][..], &[7; 31], &[7; 33], &[7; 4096], &[7; 32]] {
        let payload = Bytes::copy_from_slice(payload);
        bus.publish_with_reply(&target, &address.of_node(&node), payload).await.unwrap();
    }
    let answer = answers.next().await.unwrap();
    assert!(answer.payload().is_empty() && !answer.is_no_responders(), "{answer:?}");
    assert_eq!(total() - before, 4);
    // The node answers on its own subject only.
    let other = Identity::parse("other.example.net").unwrap();
    let reference = Bytes::from_static(&[7; 32]);
    bus.publish_with_reply(&target, &address.of_node(&other), reference).await.unwrap();
    let call = RpcCall::new("rpcutil", "ping", CallTarget::Nodes([node].into())).unwrap();
    let (replies, _) = fixture.caller.call(call).await;
    assert_eq!(replies.len(), 1);
    assert!(answers.try_next().is_none());
}
