//! A caller for tests: through the client library where that can say it, and with hand-made messages where it refuses to.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_bus::{Bus, BusSubscription, Bytes};
use muster_client::{
    CallEvent, CallStats, CallTarget, Client, DiscoveryWindow, ReceivedReply, RpcCall,
};
use muster_filter::NodeFilter;
use muster_tests::fleet::{NodeSetup, TestNode};
use muster_tests::nats_server::{NatsServer, PATIENCE};
use muster_tests::organisation::{Broker, Organisation, connect};
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::reply::Reply;
use muster_wire::request::{Request, RequestTarget};
use muster_wire::sign::{EnvelopeKind, ExpectedAnswer, Signer, open_reply, sign_envelope};
use muster_wire::subject::{self, AnswerAddress};
use muster_wire::token::TokenCache;
use serde_json::{Map, Value};
use uuid::Uuid;

/// One broker, one node, one caller.
pub(crate) struct World {
    pub(crate) organisation: Organisation,
    pub(crate) server: NatsServer,
    pub(crate) node: TestNode,
    pub(crate) caller: Caller,
}

impl World {
    /// A world whose node is `node1.example.net`, changed as the test wants.
    pub(crate) async fn new(change: impl FnOnce(&mut NodeSetup)) -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker().await;
        Box::pin(Self::on(organisation, server, change)).await
    }

    /// The same with a broker that has the fleet's stores.
    pub(crate) async fn storing(change: impl FnOnce(&mut NodeSetup)) -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker_with_stores().await;
        Box::pin(Self::on(organisation, server, change)).await
    }

    async fn on(
        organisation: Organisation,
        server: NatsServer,
        change: impl FnOnce(&mut NodeSetup),
    ) -> Self {
        let mut blueprint = NodeSetup::new(organisation.node("node1.example.net"));
        change(&mut blueprint);
        let node = Box::pin(TestNode::start(&organisation, &server, blueprint)).await;
        let caller = Caller::connect(&organisation, &server, organisation.caller("rip")).await;
        Self { organisation, server, node, caller }
    }
}

/// The sensitive inputs of an action, if its agent is built in.
fn sensitive(agent: &str, action: &str) -> BTreeSet<String> {
    let Some(text) = muster_ddl::builtin_agent(agent) else {
        return BTreeSet::new();
    };
    let ddl = muster_ddl::AgentDdl::from_slice(text.as_bytes()).unwrap();
    let action = ddl.find_action(action);
    let names = action.into_iter().flat_map(muster_ddl::ActionSchema::sensitive_inputs);
    names.map(str::to_owned).collect()
}

/// A connected caller.
pub(crate) struct Caller {
    pub(crate) bus: Bus,
    pub(crate) signer: Signer,
    pub(crate) client: Client,
    collective: SubjectName,
    trust: muster_wire::token::AccountTrust,
}

impl Caller {
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

    /// Asks one node, and returns its answer. As with `rpc`, what the built-in schema says is sensitive is sealed.
    pub(crate) async fn ask(
        &self,
        node: &str,
        agent: &str,
        action: &str,
        data: Value,
    ) -> ReceivedReply {
        let nodes = [Identity::parse(node).unwrap()].into();
        let mut call = RpcCall::new(agent, action, CallTarget::Nodes(nodes)).unwrap();
        call.data = object(data);
        call.sensitive = sensitive(agent, action);
        let (mut answers, stats) = self.call(call).await;
        answers.pop_first().unwrap_or_else(|| panic!("no answer: {stats:?}")).1
    }

    /// Makes a call to its end.
    pub(crate) async fn call(
        &self,
        call: RpcCall,
    ) -> (BTreeMap<Identity, ReceivedReply>, CallStats) {
        let mut events = self.client.call(call);
        let mut answers = BTreeMap::new();
        loop {
            match events.next().await.unwrap() {
                CallEvent::Reply(answer) => {
                    answers.insert(answer.reply.sender.clone(), *answer);
                }
                CallEvent::Finished(stats) => return (answers, *stats),
                CallEvent::Failed(error) => panic!("{error}"),
                _ => {}
            }
        }
    }

    /// A request that a test can bend before it is sealed: a ping of everybody.
    pub(crate) fn request(&self) -> Request {
        Request {
            id: Uuid::now_v7(),
            caller: self.signer.identity().clone(),
            collective: self.collective.clone(),
            agent: SubjectName::parse("rpcutil").unwrap(),
            action: SubjectName::parse("ping").unwrap(),
            target: RequestTarget::Filter(NodeFilter::default()),
            issued_at: muster_tests::now(),
            ttl: 60_000,
            timeout: None,
            reply: true,
            trace: false,
            traceparent: None,
            stream: false,
            approval: None,
            data: Map::new(),
            sealed: None,
        }
    }

    /// Seals a request with our key.
    pub(crate) fn seal(&self, request: &Request) -> Bytes {
        sign_envelope(EnvelopeKind::Request, request, &self.signer).unwrap().into()
    }

    /// Where the request would go.
    pub(crate) fn subject(request: &Request) -> String {
        subject::broadcast_request(&request.collective, &request.agent, &request.action)
    }

    /// The inbox of a request, subscribed.
    pub(crate) async fn inbox(&self, request: &Request) -> (String, BusSubscription) {
        let address = AnswerAddress::of_request(&self.signer.public_key().to_string(), &request.id);
        let subscription = self.bus.subscribe(&address.subscription_pattern()).await.unwrap();
        (address.of_broadcast(), subscription)
    }

    /// Sends a request as it is, and returns the verified reply.
    pub(crate) async fn send(&self, request: &Request) -> Reply {
        let (inbox, mut replies) = self.inbox(request).await;
        self.bus
            .publish_with_reply(&Self::subject(request), &inbox, self.seal(request))
            .await
            .unwrap();
        let message = tokio::time::timeout(PATIENCE, replies.next()).await.unwrap().unwrap();
        self.open(request, message.payload())
    }

    /// Verifies a reply.
    pub(crate) fn open(&self, request: &Request, payload: &[u8]) -> Reply {
        let expected = ExpectedAnswer {
            request: Some(request.id),
            agent: &request.agent,
            action: &request.action,
        };
        let now = muster_tests::now();
        open_reply(payload, &expected, &self.trust, &TokenCache::default(), now).unwrap().reply
    }

    /// Sends bytes, then a good ping on the same connection; whatever the bytes brought forth is there before the ping's answer.
    /// Returns how many messages came for the bytes.
    pub(crate) async fn answers_to(&self, subject: &str, payload: Bytes) -> usize {
        let probe = self.request();
        let address =
            AnswerAddress::of_word(&self.signer.public_key().to_string(), "probe").unwrap();
        let inbox = address.of_broadcast();
        let mut replies = self.bus.subscribe(&address.subscription_pattern()).await.unwrap();
        self.bus.publish_with_reply(subject, &inbox, payload).await.unwrap();
        self.bus
            .publish_with_reply(&Self::subject(&probe), &inbox, self.seal(&probe))
            .await
            .unwrap();
        let mut before = 0;
        loop {
            let message = tokio::time::timeout(PATIENCE, replies.next()).await.unwrap().unwrap();
            let body = String::from_utf8_lossy(message.payload()).into_owned();
            if body.contains(&probe.id.to_string()) {
                return before;
            }
            before += 1;
        }
    }
}

pub(crate) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("{other} is no object"),
    }
}

/// Long enough for anything on loopback, short enough for a test of waiting.
pub(crate) const MOMENT: Duration = Duration::from_millis(300);
