//! A node whose clock jumps by an hour and back: requests outside its window are refused with a hint at the clocks, and
//! nothing runs twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use muster_node::ground::clock::WallClock;
use muster_tests::fleet::{NodeSetup, TestNode};
use muster_tests::organisation::Organisation;
use muster_wire::identity::SubjectName;
use muster_wire::reply::Reply;
use muster_wire::request::Request;
use muster_wire::status::{ReplyReason, ReplyStatus};

use super::call_records::{self, EffectLog};
use crate::node_fixture::{NodeFixture, TestCaller};

const HOUR: i64 = 3_600_000;

/// A node whose clock is off by `offset` milliseconds.
struct SkewedNode {
    fixture: NodeFixture,
    offset: Arc<AtomicI64>,
    effects: Arc<EffectLog>,
}

/// A request that was sent, and its signed bytes.
struct SentRequest {
    request: Request,
    bytes: muster_bus::Bytes,
}

impl SkewedNode {
    async fn new() -> Self {
        let (offset, effects) = (Arc::<AtomicI64>::default(), Arc::<EffectLog>::default());
        let fixture = NodeFixture::new(|setup| configure_node(setup, &offset, &effects)).await;
        Self { fixture, offset, effects }
    }

    fn jump_to(&self, milliseconds: i64) {
        self.offset.store(milliseconds, Ordering::SeqCst);
    }

    /// Sends a change with a correct time.
    async fn send_strike(&self) -> (SentRequest, Reply) {
        let caller = &self.fixture.caller;
        let request = Request {
            agent: SubjectName::parse("ledger").unwrap(),
            action: SubjectName::parse("strike").unwrap(),
            ..caller.ping_request()
        };
        let bytes = caller.sign_request(&request);
        let (inbox, mut replies) = caller.subscribe_inbox(&request).await;
        let subject = TestCaller::request_subject(&request);
        caller.bus.publish_with_reply(&subject, &inbox, bytes.clone()).await.unwrap();
        let message = replies.next().await.unwrap();
        let reply = caller.verify_reply(&request, message.payload());
        (SentRequest { request, bytes }, reply)
    }

    /// Sends the request again: it is counted as replayed, and neither executed nor answered.
    async fn assert_replay_detected(&self, sent: &SentRequest) {
        let (done, core) = (self.execution_count(sent), &self.fixture.node.core);
        let replayed = core.snapshot_counters().replayed;
        let subject = TestCaller::request_subject(&sent.request);
        let bytes = sent.bytes.clone();
        assert_eq!(self.fixture.caller.count_replies(&subject, bytes).await, 0);
        assert_eq!(core.snapshot_counters().replayed, replayed + 1, "the replay was not detected");
        assert_eq!(self.execution_count(sent), done);
    }

    fn execution_count(&self, sent: &SentRequest) -> u32 {
        self.effects.count(self.fixture.node.core.identity(), sent.request.id)
    }
}

fn configure_node(setup: &mut NodeSetup, offset: &Arc<AtomicI64>, effects: &Arc<EffectLog>) {
    let offset = Arc::clone(offset);
    setup.clock = WallClock::new(move || {
        muster_tests::now().saturating_add_signed(offset.load(Ordering::SeqCst))
    });
    setup.agents = vec![call_records::ledger_agent(effects)];
}

/// The refusal names the clocks, and the age equals the offset.
fn assert_refused(reply: &Reply, off: i64) {
    assert_eq!(reply.statuscode, ReplyStatus::Other, "{reply:?}");
    assert!(reply.statusmsg.raw().contains("compare the clocks"), "{}", reply.statusmsg.raw());
    let Some(ReplyReason::Expired { age_ms }) = reply.reason else {
        panic!("{reply:?}");
    };
    assert!((age_ms - off).abs() < 20_000, "{age_ms} ms");
}

#[tokio::test]
async fn clock_an_hour_ahead_and_back_repeats_nothing() {
    let node = SkewedNode::new().await;
    let (before, reply) = node.send_strike().await;
    assert_eq!(reply.statuscode, ReplyStatus::Ok, "{reply:?}");
    node.jump_to(HOUR);
    let (during, reply) = node.send_strike().await;
    assert_refused(&reply, HOUR);
    node.assert_replay_detected(&before).await;
    assert_eq!(node.execution_count(&before), 1);
    node.assert_replay_detected(&during).await;
    assert_eq!(node.execution_count(&during), 0);
    node.jump_to(0);
    node.assert_replay_detected(&before).await;
    assert_eq!(node.execution_count(&before), 1);
    // The caller received the refusal, and may have sent the request again.
    node.assert_replay_detected(&during).await;
    assert_eq!(node.execution_count(&during), 0);
    let (after, reply) = node.send_strike().await;
    assert_eq!(reply.statuscode, ReplyStatus::Ok, "{reply:?}");
    assert_eq!(node.execution_count(&after), 1);
}

#[tokio::test]
async fn clock_an_hour_behind_and_back_repeats_nothing() {
    let node = SkewedNode::new().await;
    let (before, reply) = node.send_strike().await;
    assert_eq!(reply.statuscode, ReplyStatus::Ok, "{reply:?}");
    node.jump_to(-HOUR);
    let (during, reply) = node.send_strike().await;
    assert_refused(&reply, -HOUR);
    node.assert_replay_detected(&before).await;
    assert_eq!(node.execution_count(&before), 1);
    node.assert_replay_detected(&during).await;
    assert_eq!(node.execution_count(&during), 0);
    node.jump_to(0);
    node.assert_replay_detected(&before).await;
    assert_eq!(node.execution_count(&before), 1);
    node.assert_replay_detected(&during).await;
    assert_eq!(node.execution_count(&during), 0);
    let (after, reply) = node.send_strike().await;
    assert_eq!(reply.statuscode, ReplyStatus::Ok, "{reply:?}");
    assert_eq!(node.execution_count(&after), 1);
}

/// A machine that starts with a wrong clock, for example with an empty battery, and corrects it later over the network.
#[tokio::test]
async fn daemon_started_with_a_wrong_clock_repeats_nothing() {
    for off in [HOUR, -HOUR] {
        let node = SkewedNode::new().await;
        let (before, reply) = node.send_strike().await;
        assert_eq!(reply.statuscode, ReplyStatus::Ok, "{reply:?}");
        let SkewedNode { fixture, offset, effects } = node;
        let NodeFixture { organisation, server, node, caller } = fixture;
        offset.store(off, Ordering::SeqCst);
        let mut setup = NodeSetup::new(node.core.trust.signer.clone());
        configure_node(&mut setup, &offset, &effects);
        let directory = node.stop_and_wait().await;
        let node = TestNode::start_in(directory, &organisation, &server, setup).await;
        let fixture = NodeFixture { organisation, server, node, caller };
        let node = SkewedNode { fixture, offset, effects };
        let (_, reply) = node.send_strike().await;
        assert_refused(&reply, off);
        node.jump_to(0);
        node.assert_replay_detected(&before).await;
        assert_eq!(node.execution_count(&before), 1, "{off} ms off");
    }
}

/// Each node uses its own clock.
#[tokio::test]
async fn only_nodes_with_a_correct_clock_execute_a_request() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker().await;
    let effects = Arc::<EffectLog>::default();
    let mut nodes = Vec::new();
    for (name, off) in [("early", HOUR), ("late", -HOUR), ("right", 0)] {
        let mut setup = NodeSetup::new(organisation.node(name));
        configure_node(&mut setup, &Arc::new(AtomicI64::new(off)), &effects);
        nodes.push(TestNode::start(&organisation, &server, setup).await);
    }
    let caller = TestCaller::connect(&organisation, &server, organisation.caller("rip")).await;
    let names = nodes.iter().map(|node| node.core.identity().clone()).collect();
    let entry = call_records::record_call(
        &caller.client,
        super::strike_call(&names, muster_tests::nats_server::NETWORK_TIMEOUT),
    )
    .await;
    let (stats, answers) = entry.finished();
    assert_eq!((stats.ok, stats.failed, stats.missing.len()), (1, 2, 0));
    for (node, answer) in answers {
        match node.as_str() {
            "early" => assert_refused(&answer.reply, HOUR),
            "late" => assert_refused(&answer.reply, -HOUR),
            _ => assert_eq!(answer.reply.statuscode, ReplyStatus::Ok),
        }
    }
    call_records::verify_records(&[entry], &effects);
}
