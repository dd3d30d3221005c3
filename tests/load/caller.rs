//! The caller of the measured nodes: times calls of the client library, as the command makes them.

use std::time::Duration;

use muster_bus::{BrokerAddress, Bus, BusOptions};
use muster_calls::{CallEvent, CallStats, CallTarget, Client, DiscoveryWindow, RpcCall};
use muster_filter::NodeFilter;
use muster_wire::identity::SubjectName;
use muster_wire::sign::Signer;
use muster_wire::token::AccountTrust;

use crate::floor::MEASUREMENT_TIMEOUT;
use crate::process::{Stopwatch, TimeSpent, pause_thread};

/// A caller whose token every node knows after its first call.
pub(crate) struct BenchCaller {
    url: String,
    signer: Signer,
    trust: AccountTrust,
    collective: SubjectName,
    nodes: usize,
    /// The client that is used for several measurements.
    client: Client,
    /// The cache of verified tokens after one reply of every node.
    verified_tokens: Vec<u8>,
    /// How long the thread stops after a request was sent.
    pub(crate) pause: Duration,
}

impl BenchCaller {
    /// Connects, and calls every node once.
    pub(crate) async fn connect(
        url: String,
        signer: Signer,
        trust: AccountTrust,
        collective: SubjectName,
        nodes: usize,
    ) -> Self {
        let bus = connect(&[&url], &signer, ConnectionKind::Command).await;
        let window = DiscoveryWindow::default();
        let client = Client::new(bus, signer.clone(), trust.clone(), collective.clone(), window);
        let mut caller = Self {
            url,
            signer,
            trust,
            collective,
            nodes,
            client,
            verified_tokens: Vec::new(),
            pause: Duration::ZERO,
        };
        caller.measure_ping(&caller.client, &[]).await;
        caller.verified_tokens = caller.client.export_verified_tokens().unwrap();
        caller
    }

    /// Calls all nodes with a client that knows their tokens.
    pub(crate) async fn measure_warm(&self) -> TimeSpent {
        self.measure_ping(&self.client, &[]).await
    }

    /// Calls all nodes as a command does: with a client that has just connected and imports cached tokens.
    pub(crate) async fn measure_command(&self) -> TimeSpent {
        self.measure_fresh(self.signer.clone(), &self.verified_tokens).await
    }

    /// Calls all nodes with a client that has no cached tokens.
    pub(crate) async fn measure_new_client(&self) -> TimeSpent {
        self.measure_fresh(self.signer.clone(), &[]).await
    }

    /// Calls all nodes as a caller whom no node knows.
    pub(crate) async fn measure_new_caller(&self, signer: Signer) -> TimeSpent {
        self.measure_fresh(signer, &[]).await
    }

    /// Calls all nodes with a client that has just connected. The time includes the import of cached tokens, but not
    /// connecting.
    async fn measure_fresh(&self, signer: Signer, verified_tokens: &[u8]) -> TimeSpent {
        let bus = connect(&[&self.url], &signer, ConnectionKind::Command).await;
        bus.confirm_delivery().await.unwrap();
        let (trust, collective) = (self.trust.clone(), self.collective.clone());
        let client = Client::new(bus, signer, trust, collective, DiscoveryWindow::default());
        let time = self.measure_ping(&client, verified_tokens).await;
        client.close().await.unwrap();
        time
    }

    /// The client for several measurements.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Times a call to its end. All nodes must reply, and all replies must be verified.
    async fn measure_ping(&self, client: &Client, verified_tokens: &[u8]) -> TimeSpent {
        let mut call = ping_call(CallTarget::Filter(NodeFilter::default()), MEASUREMENT_TIMEOUT);
        call.expect = Some(self.nodes);
        let watch = Stopwatch::start();
        if !verified_tokens.is_empty() {
            assert!(client.import_verified_tokens(verified_tokens) >= self.nodes);
        }
        let stats = finish_after(client, call, self.pause).await;
        let time = watch.stop();
        let is_complete =
            stats.ok == self.nodes && stats.rejected == 0 && stats.incomplete.is_none();
        assert!(is_complete, "not all of {} nodes replied correctly: {stats:?}", self.nodes);
        time
    }
}

/// A call of `rpcutil ping`.
pub(crate) fn ping_call(target: CallTarget, wait: Duration) -> RpcCall {
    let mut call = RpcCall::new("rpcutil", "ping", target).unwrap();
    call.wait = wait;
    call
}

/// Makes a call and consumes its events until it has finished.
pub(crate) async fn finish(client: &Client, call: RpcCall) -> Box<CallStats> {
    finish_after(client, call, Duration::ZERO).await
}

/// Like [`finish`], but stops the thread for this time after the request was sent, so that replies wait at the broker.
async fn finish_after(client: &Client, call: RpcCall, pause: Duration) -> Box<CallStats> {
    let mut events = client.call(call);
    loop {
        match events.next().await.unwrap() {
            CallEvent::Published { .. } if !pause.is_zero() => pause_thread(pause),
            CallEvent::Finished(stats) => return stats,
            CallEvent::Failed(error) => panic!("{error}"),
            _ => {}
        }
    }
}

/// How a connection behaves towards its broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionKind {
    /// As a command, for which a user waits.
    Command,
    /// As a daemon, which reconnects together with the other daemons.
    Daemon,
}

/// Connects as this user to one of these servers, with a private inbox.
pub(crate) async fn connect(urls: &[impl AsRef<str>], user: &Signer, kind: ConnectionKind) -> Bus {
    let parse = |url: &_| BrokerAddress::parse(AsRef::as_ref(url), true).unwrap();
    let server = urls.iter().map(parse).collect();
    let name = user.identity().as_str();
    let mut options = match kind {
        ConnectionKind::Command => BusOptions::for_command(name, server),
        ConnectionKind::Daemon => BusOptions::for_daemon(name, server),
    };
    options.credentials = Some(muster_bus::BrokerCredentials::from_signer(user));
    let key = user.public_key().to_string();
    options.inbox_prefix = Some(muster_wire::subject::inbox_prefix(&key));
    let bus = options.connect().await.unwrap();
    bus.wait_connected().await;
    bus
}
