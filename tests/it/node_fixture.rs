//! A fixture with one broker, one node and one caller. The caller uses the client library, or sends hand-made messages
//! that the library does not permit.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_bus::{Bus, BusSubscription, Bytes};
use muster_calls::{
    CallEvent, CallStats, CallTarget, Client, DiscoveryWindow, ReceivedReply, RpcCall,
};
use muster_filter::NodeFilter;
use muster_tests::fleet::{NodeSetup, TestNode};
use muster_tests::nats_server::{NETWORK_TIMEOUT, NatsServer};
use muster_tests::organisation::{Broker, Organisation, connect};
use muster_tests::requests::unsigned_request;
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::reply::Reply;
use muster_wire::request::{Request, RequestTarget};
use muster_wire::sign::{EnvelopeKind, ExpectedAnswer, Signer, open_reply, sign_envelope};
use muster_wire::subject::{self, AnswerAddress};
use muster_wire::token::TokenCache;
use serde_json::{Map, Value};

/// One broker, one node, one caller.
pub(crate) struct NodeFixture {
    pub(crate) organisation: Organisation,
    pub(crate) server: NatsServer,
    pub(crate) node: TestNode,
    pub(crate) caller: TestCaller,
}

impl NodeFixture {
    /// A fixture with the node `node1.example.net`; `change` edits its configuration.
    pub(crate) async fn new(change: impl FnOnce(&mut NodeSetup)) -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker().await;
        Box::pin(Self::start_on(organisation, server, change)).await
    }

    /// Like [`Self::new`], with a broker that has the fleet's stores.
    pub(crate) async fn with_stores(change: impl FnOnce(&mut NodeSetup)) -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker_with_stores().await;
        Box::pin(Self::start_on(organisation, server, change)).await
    }

    async fn start_on(
        organisation: Organisation,
        server: NatsServer,
        change: impl FnOnce(&mut NodeSetup),
    ) -> Self {
        let mut setup = NodeSetup::new(organisation.node("node1.example.net"));
        change(&mut setup);
        let node = Box::pin(TestNode::start(&organisation, &server, setup)).await;
        let caller = TestCaller::connect(&organisation, &server, organisation.caller("rip")).await;
        Self { organisation, server, node, caller }
    }
}

/// The sensitive inputs of an action of a built-in agent; empty for other agents.
fn sensitive_inputs(agent: &str, action: &str) -> BTreeSet<String> {
    let Some(text) = muster_ddl::builtin_agent(agent) else {
        return BTreeSet::new();
    };
    let ddl = muster_ddl::AgentDdl::from_slice(text.as_bytes()).unwrap();
    let action = ddl.find_action(action);
    let names = action.into_iter().flat_map(muster_ddl::ActionSchema::sensitive_inputs);
    names.map(str::to_owned).collect()
}

/// A connected caller.
pub(crate) struct TestCaller {
    pub(crate) bus: Bus,
    pub(crate) signer: Signer,
    pub(crate) client: Client,
    collective: SubjectName,
    trust: muster_wire::token::AccountTrust,
}

impl TestCaller {
    pub(crate) async fn connect(
        organisation: &Organisation,
        server: &impl Broker,
        signer: Signer,
    ) -> Self {
        let bus = connect(server, &signer).await;
        let collective = organisation.collective().clone();
        let trust = organisation.trust();
        let window = DiscoveryWindow::default();
        let client =
            Client::new(bus.clone(), signer.clone(), trust.clone(), collective.clone(), window);
        Self { bus, signer, client, collective, trust }
    }

    /// Calls an action on one node and returns its reply. As in `rpc`, inputs that the built-in schema marks as
    /// sensitive are encrypted.
    pub(crate) async fn call_action(
        &self,
        node: &str,
        agent: &str,
        action: &str,
        data: Value,
    ) -> ReceivedReply {
        let nodes = [Identity::parse(node).unwrap()].into();
        let mut call = RpcCall::new(agent, action, CallTarget::Nodes(nodes)).unwrap();
        call.data = to_object(data);
        call.sensitive = sensitive_inputs(agent, action);
        let (mut replies, stats) = self.call(call).await;
        replies.pop_first().unwrap_or_else(|| panic!("no answer: {stats:?}")).1
    }

    /// Runs a call until it has finished.
    pub(crate) async fn call(
        &self,
        call: RpcCall,
    ) -> (BTreeMap<Identity, ReceivedReply>, CallStats) {
        let mut events = self.client.call(call);
        let mut replies = BTreeMap::new();
        loop {
            match events.next().await.unwrap() {
                CallEvent::Reply(reply) => {
                    replies.insert(reply.reply.sender.clone(), *reply);
                }
                CallEvent::Finished(stats) => return (replies, *stats),
                CallEvent::Failed(error) => panic!("{error}"),
                _ => {}
            }
        }
    }

    /// A ping for all nodes, which a test can modify before it is signed.
    pub(crate) fn ping_request(&self) -> Request {
        unsigned_request(
            self.signer.identity(),
            [self.collective.as_str(), "rpcutil", "ping"],
            RequestTarget::Filter(NodeFilter::default()),
        )
    }

    /// Signs a request with the caller's key.
    pub(crate) fn sign_request(&self, request: &Request) -> Bytes {
        sign_envelope(EnvelopeKind::Request, request, &self.signer).unwrap().into()
    }

    /// The broadcast subject of a request.
    pub(crate) fn request_subject(request: &Request) -> String {
        subject::broadcast_request(&request.collective, &request.agent, &request.action)
    }

    /// The reply subject of a request, and a subscription for its replies.
    pub(crate) async fn subscribe_inbox(&self, request: &Request) -> (String, BusSubscription) {
        let address = AnswerAddress::of_request(&self.signer.public_key().to_string(), &request.id);
        let subscription = self.bus.subscribe(&address.subscription_pattern()).await.unwrap();
        (address.of_broadcast(), subscription)
    }

    /// Sends a request unchanged, and returns the verified reply.
    pub(crate) async fn send(&self, request: &Request) -> Reply {
        let (inbox, mut replies) = self.subscribe_inbox(request).await;
        self.bus
            .publish_with_reply(&Self::request_subject(request), &inbox, self.sign_request(request))
            .await
            .unwrap();
        let message = tokio::time::timeout(NETWORK_TIMEOUT, replies.next()).await.unwrap().unwrap();
        self.verify_reply(request, message.payload())
    }

    /// Verifies a reply.
    pub(crate) fn verify_reply(&self, request: &Request, payload: &[u8]) -> Reply {
        let expected = ExpectedAnswer {
            request: Some(request.id),
            agent: &request.agent,
            action: &request.action,
        };
        let now = muster_tests::now();
        open_reply(payload, &expected, &self.trust, &TokenCache::default(), now).unwrap().reply
    }

    /// Publishes bytes, then a valid ping on the same connection. Replies to the bytes arrive before the reply to the
    /// ping. Returns the number of replies to the bytes.
    pub(crate) async fn count_replies(&self, subject: &str, payload: Bytes) -> usize {
        let probe = self.ping_request();
        let address =
            AnswerAddress::of_word(&self.signer.public_key().to_string(), "probe").unwrap();
        let inbox = address.of_broadcast();
        let mut replies = self.bus.subscribe(&address.subscription_pattern()).await.unwrap();
        self.bus.publish_with_reply(subject, &inbox, payload).await.unwrap();
        self.bus
            .publish_with_reply(&Self::request_subject(&probe), &inbox, self.sign_request(&probe))
            .await
            .unwrap();
        let mut before = 0;
        loop {
            let message =
                tokio::time::timeout(NETWORK_TIMEOUT, replies.next()).await.unwrap().unwrap();
            let body = String::from_utf8_lossy(message.payload()).into_owned();
            if body.contains(&probe.id.to_string()) {
                return before;
            }
            before += 1;
        }
    }
}

pub(crate) fn to_object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("{other} is not an object"),
    }
}

/// Long enough for an exchange on loopback, short enough for a test that waits in vain.
pub(crate) const SHORT_WAIT: Duration = Duration::from_millis(300);
