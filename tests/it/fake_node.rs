//! A fixture in which the test itself receives requests and sends replies in place of a node.

use std::time::Duration;

use muster_bus::{Bus, BusMessage, BusSubscription};
use muster_calls::{CallTarget, RpcCall};
use muster_filter::NodeFilter;
use muster_tests::nats_server::NatsServer;
use muster_tests::now;
use muster_tests::organisation::{Organisation, connect};
use muster_wire::identity::Identity;
use muster_wire::sign::Signer;
use muster_wire::subject::AnswerAddress;
use serde_json::json;

use crate::node_fixture::TestCaller;

/// A broker, a caller with a request for all nodes, and a connection that receives it without a daemon.
pub(crate) struct FakeNodeFixture {
    pub(crate) organisation: Organisation,
    pub(crate) caller: TestCaller,
    pub(crate) call: RpcCall,
    pub(crate) bus: Bus,
    pub(crate) requests: BusSubscription,
    _server: NatsServer,
}

impl FakeNodeFixture {
    pub(crate) async fn start(organisation: Organisation, user: &Signer, wait: Duration) -> Self {
        let server = organisation.start_broker().await;
        let caller = TestCaller::connect(&organisation, &server, organisation.caller("rip")).await;
        let bus = connect(&server, user).await;
        let subjects = ["muster.*.*.all".to_owned()];
        let requests = bus.subscribe_all(&subjects).await.unwrap().remove(0);
        let mut call =
            RpcCall::new("rpcutil", "ping", CallTarget::Filter(NodeFilter::default())).unwrap();
        call.wait = wait;
        Self { organisation, caller, call, bus, requests, _server: server }
    }
}

/// The subject on which this node replies to the request.
pub(crate) fn reply_subject(request: &BusMessage, node: &Identity) -> String {
    let reply_to = request.reply_to().unwrap();
    let key = reply_to.split('.').nth(1).unwrap();
    AnswerAddress::from_reply_subject(reply_to, key).unwrap().of_node(node)
}

/// The reply of a node to the ping, with this number as its data.
pub(crate) fn pong_reply(
    request: &BusMessage,
    sender: &Identity,
    number: usize,
) -> serde_json::Value {
    let body: serde_json::Value = serde_json::from_slice(request.payload()).unwrap();
    json!({
        "request": body.pointer("/body/id"), "sender": sender, "agent": "rpcutil", "action": "ping",
        "statuscode": 0, "statusmsg": "OK", "data": {"pong": number}, "time": now(), "took": 0,
    })
}
