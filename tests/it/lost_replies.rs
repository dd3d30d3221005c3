//! Node, caller or broker are cut off at each moment of a request. Its caller gets the result a few seconds after the connection is there again, and nothing is
//! executed twice.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use muster_calls::{CallEvent, CallTarget, RpcCall};
use muster_tests::await_state;
use muster_tests::fault_proxy::{FaultProxy, NetworkFault};
use muster_tests::fleet::{NodeSetup, TestNode};
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::Organisation;
use muster_wire::identity::Identity;
use muster_wire::status::ReplyStatus;
use serde_json::json;
use tokio::sync::Notify;

use crate::node_fixture::{NodeFixture, TestCaller, to_object};

const NODE: &str = "node1.example.net";

/// A node and a caller, each behind a proxy that can cut it off.
struct CutFleet {
    _organisation: Organisation,
    _server: NatsServer,
    node: TestNode,
    node_proxy: FaultProxy,
    caller: TestCaller,
    caller_proxy: FaultProxy,
}

impl CutFleet {
    async fn start() -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker().await;
        let (node_proxy, caller_proxy) =
            (FaultProxy::start(&server).await, FaultProxy::start(&server).await);
        let setup = NodeSetup::new(organisation.node(NODE));
        let node = Box::pin(TestNode::start(&organisation, &node_proxy, setup)).await;
        let caller =
            TestCaller::connect(&organisation, &caller_proxy, organisation.caller("rip")).await;
        Self {
            _organisation: organisation,
            _server: server,
            node,
            node_proxy,
            caller,
            caller_proxy,
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.node.root().join("tmp").join(name)
    }

    /// Runs an action that adds a line to a file, and ends when the test creates another one. Returns the status.
    async fn call(&self, published: &Notify) -> ReplyStatus {
        let nodes: BTreeSet<Identity> = [Identity::parse(NODE).unwrap()].into();
        let mut call = RpcCall::new("puppetral", "do", CallTarget::Nodes(nodes)).unwrap();
        let script = "echo x >> /tmp/begun; while ! test -e /tmp/go; do sleep 0.05; done";
        call.data = to_object(
            json!({"type": "exec", "name": "wait", "command": script, "provider": "shell"}),
        );
        call.wait = Duration::from_mins(5);
        let mut events = self.caller.client.call(call);
        let mut status = None;
        loop {
            match events.next().await.unwrap() {
                CallEvent::Published { .. } => published.notify_one(),
                CallEvent::Reply(answer) => status = Some(answer.reply.statuscode),
                CallEvent::Finished(end) => {
                    assert!(end.missing.is_empty() && end.absent.is_empty(), "{end:?}");
                    assert_eq!(end.incomplete, None, "one of one replied");
                    return status.unwrap();
                }
                _ => {}
            }
        }
    }

    /// Waits until the node has sent a reply.
    async fn await_reply_sent(&self) {
        await_state("the reply is sent", || self.node.core.snapshot_counters().replies > 0).await;
    }

    async fn await_begun(&self) {
        await_state("the action runs", || self.file("begun").exists()).await;
    }

    fn release(&self) {
        std::fs::write(self.file("go"), "").unwrap();
    }

    fn assert_executed_once(&self, what: &str) {
        assert_eq!(std::fs::read_to_string(self.file("begun")).unwrap(), "x\n", "{what}");
    }
}

/// The side that is cut off.
#[derive(Debug, Clone, Copy)]
enum Side {
    Node,
    Caller,
}

/// When it is cut off; it is connected again after the next step.
#[derive(Debug, Clone, Copy)]
enum Moment {
    BeforeRequest,
    WhileRunning,
}

async fn cut_off(side: Side, moment: Moment) {
    let what = format!("{side:?} {moment:?}");
    let fleet = CutFleet::start().await;
    let proxy = match side {
        Side::Node => &fleet.node_proxy,
        Side::Caller => &fleet.caller_proxy,
    };
    let published = Notify::new();
    let disturb = async {
        match moment {
            Moment::BeforeRequest => {
                fleet.release();
                published.notified().await;
                if matches!(side, Side::Node) {
                    // Otherwise the broker may drop the node's connection before it has the request, and report the node as absent.
                    fleet.caller.bus.confirm_delivery().await.unwrap();
                }
            }
            Moment::WhileRunning => {
                fleet.await_begun().await;
                proxy.inject(NetworkFault::HalfOpen);
                fleet.release();
                fleet.await_reply_sent().await;
            }
        }
        proxy.heal();
    };
    if matches!(moment, Moment::BeforeRequest) {
        proxy.inject(NetworkFault::HalfOpen);
    }
    let both = async { tokio::join!(fleet.call(&published), disturb) };
    let (status, ()) = tokio::time::timeout(Duration::from_mins(1), both)
        .await
        .unwrap_or_else(|_| panic!("{what}: the caller still waits"));
    assert_eq!(status, ReplyStatus::Ok, "{what}");
    fleet.assert_executed_once(&what);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_requests_and_replies_are_repeated_and_executed_once() {
    tokio::join!(
        cut_off(Side::Node, Moment::BeforeRequest),
        cut_off(Side::Caller, Moment::BeforeRequest),
        cut_off(Side::Node, Moment::WhileRunning),
        cut_off(Side::Caller, Moment::WhileRunning),
    );
}

/// A single broker is stopped while the action runs, and is back at the same address after its reply.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reply_during_a_restart_of_the_broker_arrives() {
    let fleet = NodeFixture::new(|_| {}).await;
    let NodeFixture { organisation: _organisation, mut server, node, caller } = fleet;
    let nodes: BTreeSet<Identity> = [Identity::parse(NODE).unwrap()].into();
    let mut call = RpcCall::new("puppetral", "do", CallTarget::Nodes(nodes)).unwrap();
    let script = "echo x >> /tmp/begun; while ! test -e /tmp/go; do sleep 0.05; done";
    call.data =
        to_object(json!({"type": "exec", "name": "wait", "command": script, "provider": "shell"}));
    call.wait = Duration::from_mins(5);
    let file = |name: &str| node.root().join("tmp").join(name);
    let disturb = async {
        await_state("the action runs", || file("begun").exists()).await;
        server.kill();
        std::fs::write(file("go"), "").unwrap();
        await_state("the reply is sent", || node.core.snapshot_counters().replies > 0).await;
        server.revive().await;
    };
    let both = async { tokio::join!(caller.call(call), disturb) };
    let ((answers, _), ()) = tokio::time::timeout(Duration::from_mins(1), both).await.unwrap();
    assert_eq!(answers.len(), 1);
    assert_eq!(std::fs::read_to_string(file("begun")).unwrap(), "x\n");
}
