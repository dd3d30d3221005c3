//! Whoever asks our nodes, and times it: the client library as the command uses it.

use std::time::Duration;

use muster_bus::{Bus, Options, Server};
use muster_client::{Aim, Call, Client, Event, Stats, Window};
use muster_wire::filter::Filter;
use muster_wire::identity::Name;
use muster_wire::sign::Signer;
use muster_wire::token::Trust;

use crate::floor::PATIENCE;
use crate::process::{Stopwatch, Took};

/// A caller whom every node knows after its first call.
pub(crate) struct Caller {
    url: String,
    signer: Signer,
    trust: Trust,
    collective: Name,
    nodes: usize,
    /// The client that goes on from one measurement to the next.
    client: Client,
}

impl Caller {
    /// Connects, and hears every node once.
    pub(crate) async fn connect(
        url: String,
        signer: Signer,
        trust: Trust,
        collective: Name,
        nodes: usize,
    ) -> Self {
        let bus = connect(&url, &signer, Kind::Command).await;
        let window = Window::default();
        let client = Client::new(
            bus,
            signer.clone(),
            trust.clone(),
            collective.clone(),
            window,
        );
        let caller = Self {
            url,
            signer,
            trust,
            collective,
            nodes,
            client,
        };
        caller.ping(&caller.client).await;
        caller
    }

    /// Asks everybody by a client that knows all of them.
    pub(crate) async fn warm(&self) -> Took {
        self.ping(&self.client).await
    }

    /// Asks everybody by a client that has just connected, as this caller or another; connecting does not count.
    pub(crate) async fn fresh(&self, other: Option<Signer>) -> Took {
        let signer = other.unwrap_or_else(|| self.signer.clone());
        let bus = connect(&self.url, &signer, Kind::Command).await;
        bus.confirm().await.unwrap();
        let (trust, collective) = (self.trust.clone(), self.collective.clone());
        let client = Client::new(bus, signer, trust, collective, Window::default());
        let took = self.ping(&client).await;
        client.close().await.unwrap();
        took
    }

    /// The client.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// From the call to its end; all nodes must have answered, and all must be believed.
    async fn ping(&self, client: &Client) -> Took {
        let mut call = ping(Aim::Filter(Filter::default()), PATIENCE);
        call.expect = Some(self.nodes);
        let watch = Stopwatch::start();
        let stats = finish(client, call).await;
        let took = watch.stop();
        let whole = stats.ok == self.nodes && stats.disbelieved == 0 && stats.incomplete.is_none();
        assert!(
            whole,
            "not all of {} nodes answered well: {stats:?}",
            self.nodes
        );
        took
    }
}

/// `rpcutil ping`.
pub(crate) fn ping(aim: Aim, wait: Duration) -> Call {
    let mut call = Call::new("rpcutil", "ping", aim).unwrap();
    call.wait = wait;
    call
}

/// Makes a call and takes its events until it is over.
pub(crate) async fn finish(client: &Client, call: Call) -> Box<Stats> {
    let mut events = client.call(call);
    loop {
        match events.next().await.unwrap() {
            Event::Finished(stats) => return stats,
            Event::Failed(error) => panic!("{error}"),
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
    let server = vec![Server::parse(url, true).unwrap()];
    let name = party.identity().as_str();
    let mut options = match kind {
        Kind::Command => Options::command(name, server),
        Kind::Daemon => Options::daemon(name, server),
    };
    options.secret = Some(muster_agent::assemble::secret(party));
    let key = party.public().to_string();
    options.inbox_prefix = Some(muster_wire::subject::inbox_prefix(&key));
    let bus = options.connect().await.unwrap();
    bus.connected().await;
    bus
}
