//! Ours: N daemons with the real pipeline in one process, and a caller of the client library.
//!
//! What is the node's own is its own here: key, token, facts, classes, memory of seen requests, slots, and mostly its connection. They are
//! the nodes of `rpcd virtual` ([`muster_agent::virtual_nodes`]); what a thousand of them share is one audit log, because each log is a
//! thread. It is flushed between measurements, and nothing may be lost in it.

use std::path::PathBuf;

use futures_util::{StreamExt as _, stream};
use muster_agent::agents::default_data_sources;
use muster_agent::policy;
use muster_agent::virtual_nodes::{NodeFleet, NodeTemplate, VirtualNode};
use muster_bus::Bus;
use muster_policy::RuleVerdict;
use muster_tests::command::Command;
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::Organisation;
use muster_wire::identity::Identity;
use tempfile::TempDir;

use crate::caller::{Caller, Kind, connect};
use crate::floor::CONNECTING;
use crate::measure::Contender;
use crate::process::Took;

/// Daemons, and those who call them.
pub(crate) struct Fleet {
    nodes: usize,
    organisation: Organisation,
    server: NatsServer,
    crowd: NodeFleet,
    caller: Caller,
    /// Where the `rpc` command finds what it needs to ask.
    home: Command,
    _directory: TempDir,
}

impl Fleet {
    /// Starts a broker and all daemons; returns when they are ready. They have connections of their own, or `shared` ones.
    pub(crate) async fn connect(nodes: usize, shared: Option<usize>) -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.broker().await;
        let directory = TempDir::new().unwrap();
        let policies = directory.path().join("policies");
        std::fs::create_dir(&policies).unwrap();
        std::fs::write(policies.join("default.policy"), "policy default allow\n").unwrap();
        let (policy, problems) = policy::load_policies(&policies, RuleVerdict::Deny);
        assert!(problems.is_empty(), "{problems:?}");
        let collectives = vec![organisation.collective().clone()];
        let trust = organisation.trust();
        let auditor = organisation.node("audit.example.net");
        let data_sources =
            default_data_sources(auditor.identity().clone(), directory.path()).unwrap();
        let mould = NodeTemplate::new(trust, collectives, policy, data_sources).unwrap();
        let account = organisation.account_token();
        let crowd = NodeFleet::new(nodes, directory.path(), &auditor, &account).unwrap();
        let shared = match shared {
            Some(count) => carriers(&organisation, &server, count).await,
            None => Vec::new(),
        };
        let world = World {
            organisation: &organisation,
            server: &server,
            mould: &mould,
            crowd: &crowd,
            shared: &shared,
        };
        stream::iter(0..nodes).for_each_concurrent(CONNECTING, |number| world.start(number)).await;
        let regular = organisation.caller("regular");
        let home = Command::new(&server, &organisation, &regular, "");
        let caller = Caller::connect(
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
            crowd,
            home,
            _directory: directory,
        }
    }

    /// The broker's version.
    pub(crate) fn broker(&self) -> String {
        let (_, bus) = self.crowd.node_connections().into_iter().next().unwrap();
        bus.server_version()
    }

    /// Where the broker is.
    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    /// Where the command finds its configuration, `rpc.toml`.
    pub(crate) fn home(&self) -> PathBuf {
        self.home.home()
    }

    /// Whom everybody trusts.
    pub(crate) fn organisation(&self) -> &Organisation {
        &self.organisation
    }

    /// The caller.
    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Every node's connection.
    pub(crate) fn buses(&self) -> Vec<(Identity, Bus)> {
        self.crowd.node_connections()
    }

    /// Kills the broker, and starts it again where it was.
    pub(crate) async fn restart_broker(mut self) -> Self {
        self.server = self.server.restart().await;
        self
    }

    /// Asks everybody once.
    pub(crate) async fn measure(&mut self, contender: Contender) -> Took {
        let took = match contender {
            Contender::First => {
                let newcomer = self.organisation.caller("newcomer");
                self.caller.newcomer(newcomer).await
            }
            Contender::Command => self.caller.command().await,
            Contender::NewClient => self.caller.forgetful().await,
            _ => self.caller.warm().await,
        };
        for log in self.crowd.audit_logs() {
            log.flush().unwrap();
            assert_eq!(
                log.lost_records(),
                0,
                "audit records of {} nodes were lost: the work was not done in full",
                self.nodes
            );
        }
        took
    }
}

/// What it takes to start a node.
struct World<'a> {
    organisation: &'a Organisation,
    server: &'a NatsServer,
    mould: &'a NodeTemplate,
    crowd: &'a NodeFleet,
    shared: &'a [Bus],
}

impl World<'_> {
    async fn start(&self, number: usize) {
        let member = VirtualNode::from_number(number).unwrap();
        let signer = self.organisation.node(member.name.as_str());
        let log = self.crowd.log_for(number).unwrap();
        let core = self.mould.build_core(member, signer, log).unwrap();
        let bus = match self.shared.get(number % self.shared.len().max(1)) {
            Some(shared) => shared.lend_connection(),
            None => connect(&self.server.url(), &core.signer, Kind::Daemon).await,
        };
        self.crowd.start_node(core, bus).await.unwrap();
    }
}

/// Connections over which many nodes speak, each for itself.
async fn carriers(organisation: &Organisation, server: &NatsServer, count: usize) -> Vec<Bus> {
    let mut carriers = Vec::with_capacity(count);
    for number in 0..count {
        let carrier = organisation.carrier(&format!("carrier{number}"));
        carriers.push(connect(&server.url(), &carrier, Kind::Daemon).await);
    }
    carriers
}
