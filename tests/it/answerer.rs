//! Who hears requests without being a daemon, and says what a test has it say.

use std::time::Duration;

use muster_bus::{Bus, BusMessage, BusSubscription};
use muster_client::{CallTarget, RpcCall};
use muster_filter::NodeFilter;
use muster_tests::nats_server::NatsServer;
use muster_tests::now;
use muster_tests::organisation::{Organisation, connect};
use muster_wire::identity::Identity;
use muster_wire::sign::Signer;
use muster_wire::subject::AnswerAddress;
use serde_json::json;

use crate::ask::Caller;

/// A broker, a caller with a question to everybody, and who hears it without being a daemon.
pub(crate) struct Answerer {
    pub(crate) organisation: Organisation,
    pub(crate) caller: Caller,
    pub(crate) call: RpcCall,
    pub(crate) bus: Bus,
    pub(crate) requests: BusSubscription,
    _server: NatsServer,
}

impl Answerer {
    pub(crate) async fn of(organisation: Organisation, party: &Signer, wait: Duration) -> Self {
        let server = organisation.start_broker().await;
        let caller = Caller::connect(&organisation, &server, organisation.caller("rip")).await;
        let bus = connect(&server, party).await;
        let subjects = ["muster.*.*.all".to_owned()];
        let requests = bus.subscribe_all(&subjects).await.unwrap().remove(0);
        let mut call =
            RpcCall::new("rpcutil", "ping", CallTarget::Filter(NodeFilter::default())).unwrap();
        call.wait = wait;
        Self { organisation, caller, call, bus, requests, _server: server }
    }
}

/// Where this node answers the request.
pub(crate) fn answer_subject(request: &BusMessage, node: &Identity) -> String {
    let reply_subject = request.reply_to().unwrap();
    let key = reply_subject.split('.').nth(1).unwrap();
    AnswerAddress::from_reply_subject(reply_subject, key).unwrap().of_node(node)
}

/// What a node would say to the request, with this word of its own.
pub(crate) fn pong(request: &BusMessage, sender: &Identity, word: usize) -> serde_json::Value {
    let body: serde_json::Value = serde_json::from_slice(request.payload()).unwrap();
    json!({
        "request": body.pointer("/body/id"), "sender": sender, "agent": "rpcutil", "action": "ping",
        "statuscode": 0, "statusmsg": "OK", "data": {"pong": word}, "time": now(), "took": 0,
    })
}
