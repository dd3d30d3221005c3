//! A node whose clock jumps an hour, either way, and back: what it cannot judge it refuses by name of the clock, and nothing runs twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use muster_agent::clock::WallClock;
use muster_tests::fleet::{Blueprint, TestNode};
use muster_tests::organisation::Organisation;
use muster_wire::identity::SubjectName;
use muster_wire::reply::Reply;
use muster_wire::request::Request;
use muster_wire::status::{ReplyReason, ReplyStatus};

use super::books::{self, Effects};
use crate::ask::{Caller, World};

const HOUR: i64 = 3_600_000;

/// A node whose clock is as far off as is written here, in milliseconds.
struct Off {
    world: World,
    by: Arc<AtomicI64>,
    effects: Arc<Effects>,
}

/// A request that was sent, and whose bytes somebody has kept.
struct Kept {
    request: Request,
    bytes: muster_bus::Bytes,
}

impl Off {
    async fn new() -> Self {
        let (by, effects) = (Arc::<AtomicI64>::default(), Arc::<Effects>::default());
        let world = World::new(|blueprint| prepare(blueprint, &by, &effects)).await;
        Self { world, by, effects }
    }

    fn jump_to(&self, milliseconds: i64) {
        self.by.store(milliseconds, Ordering::SeqCst);
    }

    /// Asks for a change, with the right time.
    async fn strike(&self) -> (Kept, Reply) {
        let caller = &self.world.caller;
        let request = Request {
            agent: SubjectName::parse("ledger").unwrap(),
            action: SubjectName::parse("strike").unwrap(),
            ..caller.request()
        };
        let bytes = caller.seal(&request);
        let (inbox, mut replies) = caller.inbox(&request).await;
        let subject = Caller::subject(&request);
        caller.bus.publish_with_reply(&subject, &inbox, bytes.clone()).await.unwrap();
        let message = replies.next().await.unwrap();
        let reply = caller.open(&request, message.payload());
        (Kept { request, bytes }, reply)
    }

    /// Sends it again: it is recognised, which is counted, and neither carried out nor answered.
    async fn assert_known(&self, kept: &Kept) {
        let (done, core) = (self.done(kept), &self.world.node.core);
        let replayed = core.snapshot_counters().replayed;
        let subject = Caller::subject(&kept.request);
        let bytes = kept.bytes.clone();
        assert_eq!(self.world.caller.answers_to(&subject, bytes).await, 0);
        assert_eq!(core.snapshot_counters().replayed, replayed + 1, "it was taken for new");
        assert_eq!(self.done(kept), done);
    }

    fn done(&self, kept: &Kept) -> u32 {
        self.effects.of(self.world.node.core.identity(), kept.request.id)
    }
}

fn prepare(blueprint: &mut Blueprint, by: &Arc<AtomicI64>, effects: &Arc<Effects>) {
    let by = Arc::clone(by);
    blueprint.clock = WallClock::new(move || {
        muster_tests::now().saturating_add_signed(by.load(Ordering::SeqCst))
    });
    blueprint.agents = vec![books::agent(effects)];
}

/// The clock is blamed, by as much as it is off.
fn assert_refused(reply: &Reply, off: i64) {
    assert_eq!(reply.statuscode, ReplyStatus::Other, "{reply:?}");
    assert!(reply.statusmsg.contains("compare the clocks"), "{}", reply.statusmsg);
    let Some(ReplyReason::Expired { age_ms }) = reply.reason else {
        panic!("{reply:?}");
    };
    assert!((age_ms - off).abs() < 20_000, "{age_ms} ms");
}

#[tokio::test]
async fn an_hour_ahead_and_back_repeats_nothing() {
    let node = Off::new().await;
    let (before, reply) = node.strike().await;
    assert_eq!(reply.statuscode, ReplyStatus::Ok, "{reply:?}");
    node.jump_to(HOUR);
    let (meanwhile, reply) = node.strike().await;
    assert_refused(&reply, HOUR);
    node.assert_known(&before).await;
    assert_eq!(node.done(&before), 1);
    node.assert_known(&meanwhile).await;
    assert_eq!(node.done(&meanwhile), 0);
    node.jump_to(0);
    node.assert_known(&before).await;
    assert_eq!(node.done(&before), 1);
    // The caller was told that it was refused, and may have asked again.
    node.assert_known(&meanwhile).await;
    assert_eq!(node.done(&meanwhile), 0);
    let (after, reply) = node.strike().await;
    assert_eq!(reply.statuscode, ReplyStatus::Ok, "{reply:?}");
    assert_eq!(node.done(&after), 1);
}

#[tokio::test]
async fn an_hour_behind_and_back_repeats_nothing() {
    let node = Off::new().await;
    let (before, reply) = node.strike().await;
    assert_eq!(reply.statuscode, ReplyStatus::Ok, "{reply:?}");
    node.jump_to(-HOUR);
    let (meanwhile, reply) = node.strike().await;
    assert_refused(&reply, -HOUR);
    node.assert_known(&before).await;
    assert_eq!(node.done(&before), 1);
    node.assert_known(&meanwhile).await;
    assert_eq!(node.done(&meanwhile), 0);
    node.jump_to(0);
    node.assert_known(&before).await;
    assert_eq!(node.done(&before), 1);
    node.assert_known(&meanwhile).await;
    assert_eq!(node.done(&meanwhile), 0);
    let (after, reply) = node.strike().await;
    assert_eq!(reply.statuscode, ReplyStatus::Ok, "{reply:?}");
    assert_eq!(node.done(&after), 1);
}

/// A machine that starts with a wrong clock, as one does whose battery is empty, and is put right by the network.
#[tokio::test]
async fn a_daemon_that_starts_while_the_clock_is_wrong_repeats_nothing() {
    for off in [HOUR, -HOUR] {
        let node = Off::new().await;
        let (before, reply) = node.strike().await;
        assert_eq!(reply.statuscode, ReplyStatus::Ok, "{reply:?}");
        let Off { world, by, effects } = node;
        let World { organisation, server, node, caller } = world;
        by.store(off, Ordering::SeqCst);
        let mut blueprint = Blueprint::new(node.core.signer.clone());
        prepare(&mut blueprint, &by, &effects);
        let directory = node.stopped().await;
        let node = TestNode::start_in(directory, &organisation, &server, blueprint).await;
        let world = World { organisation, server, node, caller };
        let node = Off { world, by, effects };
        let (_, reply) = node.strike().await;
        assert_refused(&reply, off);
        node.jump_to(0);
        node.assert_known(&before).await;
        assert_eq!(node.done(&before), 1, "{off} ms off");
    }
}

/// Each node by its own clock.
#[tokio::test]
async fn who_is_right_about_the_time_is_answered_by_those_who_are() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.broker().await;
    let effects = Arc::<Effects>::default();
    let mut nodes = Vec::new();
    for (name, off) in [("early", HOUR), ("late", -HOUR), ("right", 0)] {
        let mut blueprint = Blueprint::new(organisation.node(name));
        prepare(&mut blueprint, &Arc::new(AtomicI64::new(off)), &effects);
        nodes.push(TestNode::start(&organisation, &server, blueprint).await);
    }
    let caller = Caller::connect(&organisation, &server, organisation.caller("rip")).await;
    let names = nodes.iter().map(|node| node.core.identity().clone()).collect();
    let entry =
        books::ask(&caller.client, super::strike(&names, muster_tests::nats_server::PATIENCE))
            .await;
    let (stats, answers) = entry.told();
    assert_eq!((stats.ok, stats.failed, stats.missing.len()), (1, 2, 0));
    for (node, answer) in answers {
        match node.as_str() {
            "early" => assert_refused(&answer.reply, HOUR),
            "late" => assert_refused(&answer.reply, -HOUR),
            _ => assert_eq!(answer.reply.statuscode, ReplyStatus::Ok),
        }
    }
    books::compare(&[entry], &effects);
}
