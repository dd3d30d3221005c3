//! Template of virtual nodes: equal parts are shared, and each node gets its own state.
//!
//! Each node has its own key and token, facts, classes, machine, seen requests, permits and counters. Schemas, stateless agents, data sources,
//! policies and trust are shared. The caller of `build_core` passes the audit log: each log has a thread, and a thousand nodes may share one.

use std::path::PathBuf;
use std::sync::Arc;

use muster_agents::package::PackagePlugin;
use muster_agents::rpcutil::RpcutilPlugin;
use muster_agents::service::ServicePlugin;
use muster_api::ddl::AgentDdl;
use muster_api::{Agent, StatelessPlugin as _, ValidatedDataSource};
use muster_host::{AgentRegistry, CallLimits};
use muster_node::config::PolicyOptions;
use muster_node::core::audit::AuditLog;
use muster_node::core::journals::NodeJournals;
use muster_node::core::sent_replies::SentReplies;
use muster_node::core::{CoreParts, DaemonCore, NodeOffer};
use muster_node::ground::clock::WallClock;
use muster_node::ground::shared::SharedValue;
use muster_node::machine::node_description::NodeDescription;
use muster_node::trust::node_trust::NodeTrust;
use muster_policy::PolicySet;
use muster_wire::identity::SubjectName;
use muster_wire::sign::Signer;
use muster_wire::token::AccountTrust;

use super::machine::new_machine;
use super::node::VirtualNode;
use crate::services::agents::PluginSetupError;

#[derive(Debug)]
pub struct NodeTemplate {
    trust: Arc<AccountTrust>,
    collectives: Vec<SubjectName>,
    policy: Arc<PolicySet>,
    /// Agents without state between requests.
    agents: Vec<Agent>,
    /// The schema of the agent with state.
    puppetral: Arc<AgentDdl>,
    data_sources: Arc<[ValidatedDataSource]>,
}

impl NodeTemplate {
    pub fn new(
        trust: AccountTrust,
        collectives: Vec<SubjectName>,
        policy: PolicySet,
        data_sources: Vec<ValidatedDataSource>,
    ) -> Result<Self, PluginSetupError> {
        let puppetral =
            muster_agents::puppetral::build_agent(muster_agents::puppetral::Options::default())?;
        Ok(Self {
            trust: Arc::new(trust),
            collectives,
            policy: Arc::new(policy),
            agents: vec![
                RpcutilPlugin::create_agent()?,
                PackagePlugin::create_agent()?,
                ServicePlugin::create_agent()?,
            ],
            puppetral: Arc::clone(puppetral.ddl()),
            data_sources: data_sources.into(),
        })
    }

    /// Adds an agent without state between requests.
    #[must_use]
    pub fn with_agent(mut self, agent: Agent) -> Self {
        self.agents.push(agent);
        self
    }

    /// Only its audit records are stored on disk.
    pub fn build_core(
        &self,
        node: VirtualNode,
        signer: Signer,
        audit: Arc<AuditLog>,
    ) -> Result<DaemonCore, PluginSetupError> {
        let machine = Arc::new(new_machine(&node.name));
        Ok(DaemonCore::new(CoreParts {
            node: NodeDescription::fixed(
                signer.identity(),
                self.collectives.clone(),
                node.facts,
                node.classes,
                machine,
            ),
            offer: NodeOffer {
                registry: SharedValue::new(self.build_registry()?),
                data_sources: Arc::clone(&self.data_sources),
                policy: Arc::clone(&self.policy).into(),
                authority: PolicyOptions::default(),
            },
            journals: NodeJournals {
                sent_replies: SentReplies::disabled(),
                ..NodeJournals::in_memory(audit)
            },
            trust: Arc::new(NodeTrust::new(
                signer,
                Arc::clone(&self.trust).into(),
                WallClock::system(),
            )),
            skew: muster_wire::fresh::CLOCK_SKEW_MILLIS,
            plain_secrets: false,
            config: None,
            config_file: PathBuf::from("/nonexistent"),
        }))
    }

    /// Each node has its own permits, and its own instance of the agent that queues changes.
    fn build_registry(&self) -> Result<AgentRegistry, PluginSetupError> {
        let options = muster_agents::puppetral::Options::default();
        let puppetral = muster_agents::puppetral::build_agent_with_schema(
            Arc::clone(&self.puppetral),
            options,
        )?;
        let mut registry = AgentRegistry::new();
        for agent in self.agents.iter().cloned().chain([puppetral]) {
            registry.add(agent, CallLimits::default())?;
        }
        Ok(registry)
    }
}
