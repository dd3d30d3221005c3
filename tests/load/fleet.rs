//! The measured fleet: N daemons with the real pipeline in one process, and a caller with the client library.
//!
//! Each node has its own key, token, facts, classes, journal of seen requests, slots, and usually its own connection.
//! The nodes are those of `rpcd virtual` ([`muster_agent::commands::virtual_nodes`]); 1000 of them share one audit log, because
//! each log needs a thread. The log is flushed between measurements, and must not lose records.

use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use muster_agent::commands::virtual_nodes::{NodeFleet, NodeTemplate, VirtualNode};
use muster_agent::services::agents::default_data_sources;
use muster_api::Agent;
use muster_bus::Bus;
use muster_node::config::RegistrationConfig;
use muster_node::trust::policy;
use muster_policy::RuleVerdict;
use muster_tests::command::RpcCommand;
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::{Broker, Organisation};
use muster_wire::identity::Identity;
use tempfile::TempDir;

use crate::caller::{BenchCaller, ConnectionKind, connect};
use crate::floor::CONCURRENT_CONNECTS;
use crate::measure::Contender;
use crate::process::TimeSpent;

/// Daemons and their caller.
pub(crate) struct DaemonFleet {
    nodes: usize,
    organisation: Organisation,
    server: NatsServer,
    fleet: NodeFleet,
    caller: BenchCaller,
    /// The directory with the configuration of the `rpc` command.
    home: RpcCommand,
    _directory: TempDir,
}

impl DaemonFleet {
    /// Starts a broker and all daemons; returns when they are ready. Each has its own connection, or all use `shared`
    /// connections.
    pub(crate) async fn connect(nodes: usize, shared: Option<usize>) -> Self {
        Self::connect_with_agents(nodes, shared, Vec::new()).await
    }

    /// Like [`Self::connect`]; the daemons also have these agents.
    pub(crate) async fn connect_with_agents(
        nodes: usize,
        shared: Option<usize>,
        agents: Vec<Agent>,
    ) -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker().await;
        let directory = TempDir::new().unwrap();
        let settings = FleetSettings { numbers: 0..nodes, shared, agents, registration: None };
        let fleet = start_nodes(&organisation, &server, settings, &directory).await;
        let regular = organisation.caller("regular");
        let home = RpcCommand::new(&server, &organisation, &regular, "");
        let caller = BenchCaller::connect(
            server.url(),
            regular,
            organisation.trust(),
            organisation.collective().clone(),
            nodes,
        );
        Self {
            nodes,
            caller: caller.await,
            organisation,
            server,
            fleet,
            home,
            _directory: directory,
        }
    }

    /// The broker's version.
    pub(crate) fn broker(&self) -> String {
        let (_, bus) = self.fleet.node_connections().into_iter().next().unwrap();
        bus.server_version()
    }

    /// The broker.
    pub(crate) fn server(&self) -> &NatsServer {
        &self.server
    }

    /// The broker's URL.
    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    /// The directory with the command's configuration `rpc.toml`.
    pub(crate) fn home(&self) -> PathBuf {
        self.home.home()
    }

    /// The organisation of the fleet.
    pub(crate) fn organisation(&self) -> &Organisation {
        &self.organisation
    }

    /// The caller.
    pub(crate) fn caller(&self) -> &BenchCaller {
        &self.caller
    }

    /// Every node's connection.
    pub(crate) fn buses(&self) -> Vec<(Identity, Bus)> {
        self.fleet.node_connections()
    }

    /// Kills the broker and restarts it on the same port.
    pub(crate) async fn restart_broker(mut self) -> Self {
        self.server = self.server.restart().await;
        self
    }

    /// Calls all nodes once.
    pub(crate) async fn measure(&mut self, contender: Contender) -> TimeSpent {
        let time = match contender {
            Contender::First => {
                let signer = self.organisation.caller("newcomer");
                self.caller.measure_new_caller(signer).await
            }
            Contender::Command => self.caller.measure_command().await,
            Contender::NewClient => self.caller.measure_new_client().await,
            _ => self.caller.measure_warm().await,
        };
        for log in self.fleet.audit_logs() {
            log.flush().unwrap();
            assert_eq!(log.lost_records(), 0, "audit records of {} nodes were lost", self.nodes);
        }
        time
    }
}

/// Which nodes are started, and how.
#[derive(Default)]
pub(crate) struct FleetSettings {
    /// Their numbers.
    pub(crate) numbers: Range<usize>,
    /// Number of connections that they share, spread over the broker's servers; `None` if each has its own.
    pub(crate) shared: Option<usize>,
    /// Agents that they have besides the usual ones.
    pub(crate) agents: Vec<Agent>,
    /// How they register with the directory, and the time over which they spread their writes.
    pub(crate) registration: Option<(RegistrationConfig, Duration)>,
}

/// Starts nodes.
pub(crate) async fn start_nodes(
    organisation: &Organisation,
    broker: &impl Broker,
    settings: FleetSettings,
    directory: &TempDir,
) -> NodeFleet {
    let policies = directory.path().join("policies");
    std::fs::create_dir(&policies).unwrap();
    std::fs::write(policies.join("default.policy"), "policy default allow\n").unwrap();
    let (policy, problems) = policy::load_policies(&policies, RuleVerdict::Deny);
    assert!(problems.is_empty(), "{problems:?}");
    let collectives = vec![organisation.collective().clone()];
    let trust = organisation.trust();
    let auditor = organisation.node("audit.example.net");
    let data_sources = default_data_sources(auditor.identity().clone(), directory.path()).unwrap();
    let template = NodeTemplate::new(trust, collectives, policy, data_sources).unwrap();
    let template = settings.agents.into_iter().fold(template, NodeTemplate::with_agent);
    let account = organisation.account_token();
    let nodes = settings.numbers.len();
    let mut fleet = NodeFleet::new(nodes, directory.path(), &auditor, &account).unwrap();
    if let Some((config, spread)) = settings.registration {
        fleet = fleet.with_registration(config, spread);
    }
    let urls = broker.urls();
    let shared = connect_shared(organisation, &urls, settings.shared.unwrap_or(0)).await;
    let starter = NodeStarter {
        organisation,
        urls: &urls,
        template: &template,
        fleet: &fleet,
        shared: &shared,
    };
    stream::iter(settings.numbers.enumerate())
        .for_each_concurrent(CONCURRENT_CONNECTS, |(index, number)| starter.start(index, number))
        .await;
    fleet
}

/// Everything that is needed to start a node.
struct NodeStarter<'a> {
    organisation: &'a Organisation,
    urls: &'a [String],
    template: &'a NodeTemplate,
    fleet: &'a NodeFleet,
    shared: &'a [Bus],
}

impl NodeStarter<'_> {
    async fn start(&self, index: usize, number: usize) {
        let node = VirtualNode::from_number(number).unwrap();
        let signer = self.organisation.node(node.name.as_str());
        let log = self.fleet.log_for(index).unwrap();
        let core = self.template.build_core(node, signer, log).unwrap();
        let bus = match self.shared.get(index % self.shared.len().max(1)) {
            Some(shared) => shared.lend_connection(),
            None => connect(self.urls, &core.trust.signer, ConnectionKind::Daemon).await,
        };
        self.fleet.start_node(core, bus).await.unwrap();
    }
}

/// Connections that many nodes share.
async fn connect_shared(organisation: &Organisation, urls: &[String], count: usize) -> Vec<Bus> {
    let mut connections = Vec::with_capacity(count);
    for number in 0..count {
        let user = organisation.unrestricted_user(&format!("carrier{number}"));
        connections.push(connect(urls, &user, ConnectionKind::Daemon).await);
    }
    connections
}
