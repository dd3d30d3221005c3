//! What virtual nodes are made of: everything that is equal is there once and shared, and each gets what is its own.
//!
//! A node's own are its key and token, facts, classes, machine, memory of seen requests, slots and counters. Schemas, agents without
//! a state, data sources, policies and trust are everybody's. Whoever makes a node says which audit log it writes to: a log is a
//! thread, and a thousand nodes may share one.

use std::path::Path;
use std::sync::Arc;

use muster_api::ddl::AgentDdl;
use muster_api::{Agent, ValidatedDataSource};
use muster_host::{AgentRegistry, CallLimits};
use muster_wire::identity::SubjectName;
use muster_wire::policy::PolicySet;
use muster_wire::sign::Signer;
use muster_wire::token::AccountTrust;

use super::machine::new_machine;
use super::node::VirtualNode;
use crate::agents;
use crate::assemble::AssembleError;
use crate::audit::AuditLog;
use crate::classes::ClassStore;
use crate::clock::WallClock;
use crate::core::{CoreParts, DaemonCore, PolicyOptions};
use crate::facts::{FactSources, FactStore};
use crate::seen::SeenRequests;

/// What all of them share.
#[derive(Debug)]
pub struct NodeTemplate {
    trust: Arc<AccountTrust>,
    collectives: Vec<SubjectName>,
    policy: Arc<PolicySet>,
    /// Agents that keep nothing between requests.
    agents: Vec<Agent>,
    /// The schema of the one that does.
    puppetral: Arc<AgentDdl>,
    data_sources: Arc<[ValidatedDataSource]>,
}

impl NodeTemplate {
    /// A mould for nodes of this fleet, with these policies. What data sources look for on the disk they look for below `state`.
    pub fn new(
        trust: AccountTrust,
        collectives: Vec<SubjectName>,
        policy: PolicySet,
        state: &Path,
    ) -> Result<Self, AssembleError> {
        let puppetral = muster_puppetral::build_agent(muster_puppetral::Options::default())?;
        let data_sources = agents::data_sources(
            muster_catalog::Options::default(),
            muster_puppet::Options::default(),
            state,
        )?;
        Ok(Self {
            trust: Arc::new(trust),
            collectives,
            policy: Arc::new(policy),
            agents: vec![
                muster_rpcutil::build_agent()?,
                muster_package::build_agent()?,
                muster_service::build_agent()?,
            ],
            puppetral: Arc::clone(puppetral.ddl()),
            data_sources: data_sources.into(),
        })
    }

    /// The state of one node. It remembers nothing on the disk but its audit records.
    pub fn build_core(
        &self,
        member: VirtualNode,
        signer: Signer,
        audit: Arc<AuditLog>,
    ) -> Result<DaemonCore, AssembleError> {
        let nowhere = Path::new("/nonexistent");
        let sources = FactSources::new(signer.identity().clone(), nowhere.to_owned());
        Ok(DaemonCore::new(CoreParts {
            trust: Arc::clone(&self.trust),
            collectives: self.collectives.clone(),
            facts: FactStore::with_facts(sources, member.facts),
            classes: ClassStore::with_classes(nowhere.to_owned(), member.classes),
            policy: Arc::clone(&self.policy),
            registry: Arc::new(self.build_registry()?),
            data_sources: Arc::clone(&self.data_sources),
            system: Arc::new(new_machine(&member.name)),
            seen: SeenRequests::in_memory(),
            audit,
            skew: muster_wire::fresh::CLOCK_SKEW_MILLIS,
            authority: PolicyOptions::default(),
            plain_secrets: false,
            clock: WallClock::system(),
            config: None,
            config_file: nowhere.to_owned(),
            signer,
        }))
    }

    /// Slots are a node's own, and so is the agent that keeps a queue of changes.
    fn build_registry(&self) -> Result<AgentRegistry, AssembleError> {
        let options = muster_puppetral::Options::default();
        let own = muster_puppetral::build_agent_with_schema(Arc::clone(&self.puppetral), options)?;
        let mut registry = AgentRegistry::new();
        for agent in self.agents.iter().cloned().chain([own]) {
            registry.add(agent, CallLimits::default())?;
        }
        Ok(registry)
    }
}
