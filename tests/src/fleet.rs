//! Daemons with the real pipeline in this process, each with its own key, connection, facts and scratch root.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use muster_agent::services::agents;
use muster_agents::package::PackagePlugin;
use muster_agents::rpcutil::RpcutilPlugin;
use muster_agents::service::ServicePlugin;
use muster_api::system::real::RealSystem;
use muster_api::{Agent, StatelessPlugin as _, ValidatedDataSource};
use muster_bus::Bus;
use muster_host::{AgentRegistry, CallLimits};
use muster_node::config::PolicyOptions;
use muster_node::core::audit::{self, AuditLog, RecordClass};
use muster_node::core::begun::BegunRequests;
use muster_node::core::history::HistoryJournal;
use muster_node::core::journals::NodeJournals;
use muster_node::core::reload;
use muster_node::core::seen::SeenRequests;
use muster_node::core::sent_replies::SentReplies;
use muster_node::core::{CoreParts, DaemonCore, NodeOffer};
use muster_node::ground::clock::WallClock;
use muster_node::ground::shared::SharedValue;
use muster_node::machine::classes::ClassStore;
use muster_node::machine::facts::{FactSources, FactStore};
use muster_node::machine::node_description::NodeDescription;
use muster_node::machine::node_state::NodeStateStore;
use muster_node::pipeline::daemon::Daemon;
use muster_node::trust::node_trust::NodeTrust;
use muster_node::trust::policy;
use muster_policy::RuleVerdict;
use muster_puppet::permits::PermitClient;
use muster_wire::sign::Signer;
use muster_wire::token::AccountTrust;
use serde_json::Value;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::organisation::{Broker, Organisation, connect};

/// The configuration of a node; start with [`NodeSetup::new`] and change what the test needs.
#[derive(Debug)]
pub struct NodeSetup {
    /// Key and token.
    pub signer: Signer,
    /// External facts.
    pub facts: Value,
    /// Classes.
    pub classes: Vec<String>,
    /// Text of the policy files, by file name.
    pub policies: Vec<(String, String)>,
    /// Agents, in addition to those of the product.
    pub agents: Vec<Agent>,
    /// Client for run permits; connected when the node starts.
    pub permits: PermitClient,
    /// Data sources, in addition to those of the product.
    pub data: Vec<ValidatedDataSource>,
    /// Limits for every agent.
    pub limits: CallLimits,
    /// Authorization options besides the policies.
    pub authority: PolicyOptions,
    /// Clock.
    pub clock: WallClock,
    /// The account token that the node was configured with; the organisation's newest one if `None`.
    pub account: Option<String>,
    /// The section `[plugins.puppetral]`.
    pub puppetral: Value,
    /// Whether the node accepts sensitive inputs that are not encrypted.
    pub plain_secrets: bool,
}

impl NodeSetup {
    /// A node that allows everything to everyone, including resources of type exec.
    pub fn new(signer: Signer) -> Self {
        Self {
            permits: PermitClient::new(signer.identity().clone()),
            signer,
            facts: serde_json::json!({}),
            classes: Vec::new(),
            policies: vec![("default.policy".to_owned(), "policy default allow\n".to_owned())],
            agents: Vec::new(),
            data: Vec::new(),
            limits: CallLimits::default(),
            authority: PolicyOptions::default(),
            clock: WallClock::system(),
            account: None,
            puppetral: serde_json::json!({"deny_types": []}),
            plain_secrets: false,
        }
    }
}

/// A running node.
#[derive(Debug)]
pub struct TestNode {
    /// The state of the daemon.
    pub core: Arc<DaemonCore>,
    /// The daemon's connection.
    pub bus: Bus,
    /// Client for run permits.
    pub permits: PermitClient,
    directory: TempDir,
    stop: CancellationToken,
    running: Option<JoinHandle<()>>,
}

impl TestNode {
    /// Builds a node and connects it; returns when it is ready.
    pub async fn start(
        organisation: &Organisation,
        server: &impl Broker,
        setup: NodeSetup,
    ) -> Self {
        let directory = TempDir::new().unwrap();
        Box::pin(Self::start_in(directory, organisation, server, setup)).await
    }

    /// Like [`Self::start`], in a directory that may contain the state of an earlier run.
    pub async fn start_in(
        directory: TempDir,
        organisation: &Organisation,
        server: &impl Broker,
        setup: NodeSetup,
    ) -> Self {
        let permits = setup.permits.clone();
        let core = build_core(directory.path(), organisation, setup, &permits);
        let core = Arc::new(core);
        let bus = connect(server, &core.trust.signer).await;
        permits.connect(bus.clone());
        let daemon = Daemon::start(Arc::clone(&core), bus.clone()).await.unwrap();
        let stop = CancellationToken::new();
        let running = tokio::spawn(daemon.run(stop.clone(), Duration::from_secs(10)));
        Self { core, bus, permits, directory, stop, running: Some(running) }
    }

    /// The node's scratch root.
    pub fn root(&self) -> PathBuf {
        self.directory.path().join("root")
    }

    /// The node's audit log, a file.
    pub fn audit_file(&self) -> PathBuf {
        self.directory.path().join("audit.log")
    }

    /// All audit records of all three files, ordered by time, without the header lines of the chains.
    pub fn audit_records(&self) -> Vec<Value> {
        self.core.journals.audit.flush().unwrap();
        let files = [RecordClass::Refusal, RecordClass::Change, RecordClass::Read];
        let mut records: Vec<Value> = files
            .iter()
            .map(|class| class.class_path(&self.audit_file()))
            .flat_map(|path| {
                let text = std::fs::read_to_string(path).unwrap_or_default();
                let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
                lines.collect::<Vec<Value>>()
            })
            .filter(|line| line.get("audit").is_none())
            .collect();
        records.sort_by_key(|record| record["time"].as_str().unwrap().to_owned());
        records
    }

    /// Requests a shutdown, as SIGTERM does; [`Self::stop_and_wait`] waits for it.
    pub fn request_stop(&self) {
        self.stop.cancel();
    }

    /// Waits until the node has stopped, and returns its directory.
    pub async fn stop_and_wait(mut self) -> TempDir {
        self.stop.cancel();
        if let Some(running) = self.running.take() {
            running.await.unwrap();
        }
        std::mem::replace(&mut self.directory, TempDir::new().unwrap())
    }
}

impl Drop for TestNode {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.abort();
        }
    }
}

fn build_core(
    directory: &Path,
    organisation: &Organisation,
    setup: NodeSetup,
    permits: &PermitClient,
) -> DaemonCore {
    let path = |name: &str| directory.join(name);
    for name in ["facts.d", "policies", "root/etc", "root/tmp", "root/home"] {
        std::fs::create_dir_all(path(name)).unwrap();
    }
    std::fs::write(path("facts.d/test.json"), setup.facts.to_string()).unwrap();
    std::fs::write(path("classes.txt"), setup.classes.join("\n")).unwrap();
    for (name, text) in &setup.policies {
        std::fs::write(path("policies").join(name), text).unwrap();
    }
    std::fs::write(path("root/etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n").unwrap();
    std::fs::write(path("root/etc/group"), "root:x:0:\n").unwrap();
    let mut registry = AgentRegistry::new();
    let puppetral = serde_json::from_value(setup.puppetral).unwrap();
    let mut agents = vec![
        RpcutilPlugin::create_agent().unwrap(),
        muster_agents::puppetral::build_agent(puppetral).unwrap(),
        PackagePlugin::create_agent().unwrap(),
        muster_puppet::permits::build_agent(permits).unwrap(),
        ServicePlugin::create_agent().unwrap(),
    ];
    agents.extend(setup.agents);
    for agent in agents {
        registry.add(agent, setup.limits).unwrap();
    }
    let mut data_sources =
        agents::default_data_sources(setup.signer.identity().clone(), directory).unwrap();
    data_sources.extend(setup.data);
    let now = setup.clock.now();
    let mut trust = organisation.trust();
    if let Some(account) = &setup.account {
        trust = AccountTrust::new(trust.operator_key(), account).unwrap();
    }
    let (policy, problems) = policy::load_policies(&path("policies"), RuleVerdict::Deny);
    assert!(problems.is_empty(), "{problems:?}");
    let audit = audit::AuditOptions {
        head: Some(path("audit.head")),
        ..audit::AuditOptions::new(
            path("audit.log"),
            setup.signer.clone(),
            organisation.account_token(),
        )
    };
    let core = DaemonCore::new(CoreParts {
        node: NodeDescription {
            collectives: vec![organisation.collective().clone()],
            facts: FactStore::new(FactSources::new(
                setup.signer.identity().clone(),
                path("facts.d"),
            )),
            classes: ClassStore::new(path("classes.txt")),
            state: NodeStateStore::default(),
            system: Arc::new(RealSystem::new(path("root"))),
        },
        offer: NodeOffer {
            registry: SharedValue::new(registry),
            data_sources: data_sources.into(),
            policy: SharedValue::new(policy),
            authority: setup.authority,
        },
        journals: NodeJournals {
            seen: SeenRequests::open(&path("seen"), now, false).unwrap(),
            begun: BegunRequests::open(&path("begun"), now),
            sent_replies: SentReplies::default(),
            audit: Arc::new(AuditLog::open(audit).unwrap()),
            history: Arc::new(HistoryJournal::disabled()),
        },
        trust: Arc::new(NodeTrust::new(setup.signer, SharedValue::new(trust), setup.clock)),
        skew: muster_wire::fresh::CLOCK_SKEW_MILLIS,
        plain_secrets: setup.plain_secrets,
        config: None,
        config_file: PathBuf::from("rpcd.toml"),
    });
    reload::reload_facts(&core, &RealSystem::new("/".into()));
    core
}
