//! Ours: N daemons with the real pipeline in one process, and callers of the client library.
//!
//! What is the node's own is its own here: key, token, connection, memory of seen requests, policy, slots. What a thousand nodes
//! share is one audit log, because each log is a thread; it is flushed between measurements, and nothing may be lost in it.
//! Facts are left out: a ping of everybody asks for none.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};
use muster_agent::audit::{AuditLog, Options};
use muster_agent::classes::Classes;
use muster_agent::clock::Clock;
use muster_agent::core::{Authority, Core, Parts};
use muster_agent::daemon::Daemon;
use muster_agent::facts::{FactStore, Sources};
use muster_agent::policy;
use muster_agent::seen::Seen;
use muster_api::Agent;
use muster_api::system::real::RealSystem;
use muster_client::{Aim, Call, Client, Event, Stats, Window};
use muster_host::{Limits, Registry};
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::{Organisation, connect};
use muster_wire::filter::Filter;
use muster_wire::policy::{PolicySet, Verdict};
use muster_wire::sign::Signer;
use muster_wire::token::Trust;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::floor::{CONNECTING, PATIENCE};
use crate::measure::Contender;

/// Nodes that share an audit log: fewer than the lines that may wait in it.
const NODES_PER_LOG: usize = 1000;

/// Daemons, and those who call them.
pub(crate) struct Fleet {
    nodes: usize,
    organisation: Organisation,
    trust: Trust,
    server: NatsServer,
    /// A caller whom every node knows after its first call.
    regular: Signer,
    /// Its client that goes on from one measurement to the next.
    client: Client,
    broker: String,
    logs: Vec<Arc<AuditLog>>,
    _directory: TempDir,
}

/// What all nodes are made of.
struct Mould {
    organisation: Organisation,
    trust: Trust,
    server: NatsServer,
    policy: PolicySet,
    agents: Vec<Agent>,
    logs: Vec<Arc<AuditLog>>,
    directory: TempDir,
}

impl Fleet {
    /// Starts a broker and all daemons; returns when they are ready.
    pub(crate) async fn connect(nodes: usize) -> Self {
        let mould = Mould::new(nodes).await;
        stream::iter(0..nodes)
            .for_each_concurrent(CONNECTING, |number| mould.start(number))
            .await;
        let Mould {
            organisation,
            trust,
            server,
            logs,
            directory,
            ..
        } = mould;
        let regular = organisation.caller("regular");
        let bus = connect(&server, &regular).await;
        let broker = bus.server_version();
        let collective = organisation.collective().clone();
        let window = Window::default();
        let client = Client::new(bus, regular.clone(), trust.clone(), collective, window);
        let fleet = Self {
            nodes,
            organisation,
            trust,
            server,
            regular,
            client,
            broker,
            logs,
            _directory: directory,
        };
        // Now client and nodes have heard of each other.
        fleet.ping(&fleet.client).await;
        fleet
    }

    /// The broker's version.
    pub(crate) fn broker(&self) -> String {
        self.broker.clone()
    }

    /// Asks everybody once.
    pub(crate) async fn measure(&self, contender: Contender) -> Duration {
        let took = match contender {
            Contender::First => self.as_newcomer(self.organisation.caller("newcomer")).await,
            Contender::Command => self.as_newcomer(self.regular.clone()).await,
            _ => self.ping(&self.client).await,
        };
        for log in &self.logs {
            log.flush().unwrap();
            assert_eq!(
                log.lost(),
                0,
                "audit records were lost: the work was not done in full"
            );
        }
        took
    }

    /// A call by a client that has just connected; connecting does not count.
    async fn as_newcomer(&self, signer: Signer) -> Duration {
        let bus = connect(&self.server, &signer).await;
        bus.confirm().await.unwrap();
        let collective = self.organisation.collective().clone();
        let client = Client::new(
            bus,
            signer,
            self.trust.clone(),
            collective,
            Window::default(),
        );
        let took = self.ping(&client).await;
        client.close().await.unwrap();
        took
    }

    /// From the call to its end; all nodes must have answered, and all must be believed.
    async fn ping(&self, client: &Client) -> Duration {
        let mut call = Call::new("rpcutil", "ping", Aim::Filter(Filter::default())).unwrap();
        call.wait = PATIENCE;
        call.expect = Some(self.nodes);
        let begun = Instant::now();
        let mut events = client.call(call);
        let stats: Box<Stats> = loop {
            match events.next().await.unwrap() {
                Event::Finished(stats) => break stats,
                Event::Failed(error) => panic!("{error}"),
                _ => {}
            }
        };
        let took = begun.elapsed();
        let whole = stats.ok == self.nodes && stats.disbelieved == 0 && stats.incomplete.is_none();
        assert!(
            whole,
            "not all of {} nodes answered well: {stats:?}",
            self.nodes
        );
        took
    }
}

impl Mould {
    async fn new(nodes: usize) -> Self {
        let directory = TempDir::new().unwrap();
        let policies = directory.path().join("policies");
        std::fs::create_dir(&policies).unwrap();
        std::fs::write(policies.join("default.policy"), "policy default allow\n").unwrap();
        let (policy, problems) = policy::load(&policies, Verdict::Deny);
        assert!(problems.is_empty(), "{problems:?}");
        let organisation = Organisation::new(&["muster"]);
        let log = |number: usize| {
            let path = directory.path().join(format!("audit.{number}.log"));
            let signer = organisation.node(&format!("node{number}.example.net"));
            let options = Options::new(path, signer, organisation.account_token());
            Arc::new(AuditLog::open(options).unwrap())
        };
        let server = organisation.broker().await;
        Self {
            trust: organisation.trust(),
            policy,
            agents: vec![
                muster_rpcutil::agent().unwrap(),
                muster_puppetral::agent(serde_json::from_str("{}").unwrap()).unwrap(),
            ],
            logs: (0..nodes.div_ceil(NODES_PER_LOG)).map(log).collect(),
            organisation,
            server,
            directory,
        }
    }

    /// Connects one daemon and lets it run as long as the process.
    async fn start(&self, number: usize) {
        let signer = self.organisation.node(&format!("node{number}.example.net"));
        let core = Arc::new(self.core(number, signer));
        let bus = connect(&self.server, core.signer()).await;
        let daemon = Daemon::start(core, bus).await.unwrap();
        tokio::spawn(daemon.run(CancellationToken::new(), PATIENCE));
    }

    fn core(&self, number: usize, signer: Signer) -> Core {
        let mut registry = Registry::new();
        for agent in &self.agents {
            registry.add(agent.clone(), Limits::default()).unwrap();
        }
        Core::new(Parts {
            trust: self.trust.clone(),
            collectives: vec![self.organisation.collective().clone()],
            facts: FactStore::new(Sources::new(
                signer.identity().clone(),
                self.directory.path().join("facts.d"),
            )),
            classes: Classes::new(self.directory.path().join("classes.txt")),
            policy: self.policy.clone(),
            registry: Arc::new(registry),
            data_sources: muster_agent::agents::data_sources(
                muster_catalog::Options::default(),
                muster_puppet::Options::default(),
                self.directory.path(),
            )
            .unwrap(),
            system: Arc::new(RealSystem::new(PathBuf::from("/"))),
            seen: Seen::in_memory(),
            audit: Arc::clone(self.logs.get(number / NODES_PER_LOG).unwrap()),
            skew: muster_wire::fresh::SKEW,
            authority: Authority::default(),
            plain_secrets: false,
            clock: Clock::system(),
            config: None,
            config_file: PathBuf::from("rpcd.toml"),
            signer,
        })
    }
}
