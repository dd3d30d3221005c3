//! Whoever asks our nodes, and times it: the client library as the command uses it.

use std::time::Duration;

use muster_bus::{BrokerAddress, Bus, BusOptions};
use muster_client::{CallEvent, CallStats, CallTarget, Client, DiscoveryWindow, RpcCall};
use muster_filter::NodeFilter;
use muster_wire::identity::SubjectName;
use muster_wire::sign::Signer;
use muster_wire::token::AccountTrust;

use crate::floor::PATIENCE;
use crate::process::{Stopwatch, Took, look_away};

/// A caller whom every node knows after its first call.
pub(crate) struct TestCaller {
    url: String,
    signer: Signer,
    trust: AccountTrust,
    collective: SubjectName,
    nodes: usize,
    /// The client that goes on from one measurement to the next.
    client: Client,
    /// What it vouches for when it has heard every node once.
    vouched: Vec<u8>,
    /// How long it looks away once it has asked.
    pub(crate) pause: Duration,
}

impl TestCaller {
    /// Connects, and hears every node once.
    pub(crate) async fn connect(
        url: String,
        signer: Signer,
        trust: AccountTrust,
        collective: SubjectName,
        nodes: usize,
    ) -> Self {
        let bus = connect(&url, &signer, Kind::Command).await;
        let window = DiscoveryWindow::default();
        let client = Client::new(bus, signer.clone(), trust.clone(), collective.clone(), window);
        let mut caller = Self {
            url,
            signer,
            trust,
            collective,
            nodes,
            client,
            vouched: Vec::new(),
            pause: Duration::ZERO,
        };
        caller.ping(&caller.client, &[]).await;
        caller.vouched = caller.client.export_verified_tokens().unwrap();
        caller
    }

    /// Asks everybody by a client that knows all of them.
    pub(crate) async fn warm(&self) -> Took {
        self.ping(&self.client, &[]).await
    }

    /// Asks everybody as a command does: by a client that has just connected, and remembers what earlier ones have verified.
    pub(crate) async fn command(&self) -> Took {
        self.fresh(self.signer.clone(), &self.vouched).await
    }

    /// Asks everybody by a client that knows nobody's token.
    pub(crate) async fn forgetful(&self) -> Took {
        self.fresh(self.signer.clone(), &[]).await
    }

    /// Asks everybody as a caller of whom nobody has heard.
    pub(crate) async fn newcomer(&self, signer: Signer) -> Took {
        self.fresh(signer, &[]).await
    }

    /// Asks everybody by a client that has just connected; connecting does not count, reading its memory does.
    async fn fresh(&self, signer: Signer, vouched: &[u8]) -> Took {
        let bus = connect(&self.url, &signer, Kind::Command).await;
        bus.confirm_delivery().await.unwrap();
        let (trust, collective) = (self.trust.clone(), self.collective.clone());
        let client = Client::new(bus, signer, trust, collective, DiscoveryWindow::default());
        let took = self.ping(&client, vouched).await;
        client.close().await.unwrap();
        took
    }

    /// The client.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// From the call to its end; all nodes must have answered, and all must be believed.
    async fn ping(&self, client: &Client, vouched: &[u8]) -> Took {
        let mut call = ping(CallTarget::Filter(NodeFilter::default()), PATIENCE);
        call.expect = Some(self.nodes);
        let watch = Stopwatch::start();
        if !vouched.is_empty() {
            assert!(client.import_verified_tokens(vouched) >= self.nodes);
        }
        let stats = finish_after(client, call, self.pause).await;
        let took = watch.stop();
        let whole = stats.ok == self.nodes && stats.rejected == 0 && stats.incomplete.is_none();
        assert!(whole, "not all of {} nodes answered well: {stats:?}", self.nodes);
        took
    }
}

/// `rpcutil ping`.
pub(crate) fn ping(aim: CallTarget, wait: Duration) -> RpcCall {
    let mut call = RpcCall::new("rpcutil", "ping", aim).unwrap();
    call.wait = wait;
    call
}

/// Makes a call and takes its events until it is over.
pub(crate) async fn finish(client: &Client, call: RpcCall) -> Box<CallStats> {
    finish_after(client, call, Duration::ZERO).await
}

/// The same, looking away for so long once the question is out: with its thread stopped, answers wait at the broker.
async fn finish_after(client: &Client, call: RpcCall, pause: Duration) -> Box<CallStats> {
    let mut events = client.call(call);
    loop {
        match events.next().await.unwrap() {
            CallEvent::Published { .. } if !pause.is_zero() => look_away(pause),
            CallEvent::Finished(stats) => return stats,
            CallEvent::Failed(error) => panic!("{error}"),
            _ => {}
        }
    }
}

/// How a party behaves towards its broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// As one whom somebody waits for.
    Command,
    /// As one that waits for its broker, with all its fellows.
    Daemon,
}

/// A connection as this party, with its private inbox.
pub(crate) async fn connect(url: &str, party: &Signer, kind: Kind) -> Bus {
    let server = vec![BrokerAddress::parse(url, true).unwrap()];
    let name = party.identity().as_str();
    let mut options = match kind {
        Kind::Command => BusOptions::for_command(name, server),
        Kind::Daemon => BusOptions::for_daemon(name, server),
    };
    options.credentials = Some(muster_bus::BrokerCredentials::from_signer(party));
    let key = party.public_key().to_string();
    options.inbox_prefix = Some(muster_wire::subject::inbox_prefix(&key));
    let bus = options.connect().await.unwrap();
    bus.wait_connected().await;
    bus
}
