//! What virtual nodes are made of: everything that is equal is there once and shared, and each gets what is its own.
//!
//! A node's own are its key and token, facts, classes, machine, memory of seen requests, slots and counters. Schemas, agents without
//! a state, data sources, policies and trust are everybody's. Whoever makes a node says which audit log it writes to: a log is a
//! thread, and a thousand nodes may share one.

use std::path::Path;
use std::sync::Arc;

use muster_api::ddl::Ddl;
use muster_api::{Agent, Data};
use muster_host::{Limits, Registry};
use muster_wire::identity::Name;
use muster_wire::policy::PolicySet;
use muster_wire::sign::Signer;
use muster_wire::token::Trust;

use super::machine::machine;
use super::member::Member;
use crate::agents;
use crate::assemble::AssembleError;
use crate::audit::AuditLog;
use crate::classes::Classes;
use crate::clock::Clock;
use crate::core::{Authority, Core, Parts};
use crate::facts::{FactStore, Sources};
use crate::seen::Seen;

/// What all of them share.
#[derive(Debug)]
pub struct Mould {
    trust: Arc<Trust>,
    collectives: Vec<Name>,
    policy: Arc<PolicySet>,
    /// Agents that keep nothing between requests.
    agents: Vec<Agent>,
    /// The schema of the one that does.
    puppetral: Arc<Ddl>,
    data_sources: Arc<[Data]>,
}

impl Mould {
    /// A mould for nodes of this fleet, with these policies. What data sources look for on the disk they look for below `state`.
    pub fn new(
        trust: Trust,
        collectives: Vec<Name>,
        policy: PolicySet,
        state: &Path,
    ) -> Result<Self, AssembleError> {
        let puppetral = muster_puppetral::agent(muster_puppetral::Options::default())?;
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
                muster_rpcutil::agent()?,
                muster_package::agent()?,
                muster_service::agent()?,
            ],
            puppetral: Arc::clone(puppetral.ddl()),
            data_sources: data_sources.into(),
        })
    }

    /// The state of one node. It remembers nothing on the disk but its audit records.
    pub fn node(
        &self,
        member: Member,
        signer: Signer,
        audit: Arc<AuditLog>,
    ) -> Result<Core, AssembleError> {
        let nowhere = Path::new("/nonexistent");
        let sources = Sources::new(signer.identity().clone(), nowhere.to_owned());
        Ok(Core::new(Parts {
            trust: Arc::clone(&self.trust),
            collectives: self.collectives.clone(),
            facts: FactStore::known(sources, member.facts),
            classes: Classes::known(nowhere.to_owned(), member.classes),
            policy: Arc::clone(&self.policy),
            registry: Arc::new(self.registry()?),
            data_sources: Arc::clone(&self.data_sources),
            system: Arc::new(machine(&member.name)),
            seen: Seen::in_memory(),
            audit,
            skew: muster_wire::fresh::SKEW,
            authority: Authority::default(),
            plain_secrets: false,
            clock: Clock::system(),
            config: None,
            config_file: nowhere.to_owned(),
            signer,
        }))
    }

    /// Slots are a node's own, and so is the agent that keeps a queue of changes.
    fn registry(&self) -> Result<Registry, AssembleError> {
        let options = muster_puppetral::Options::default();
        let own = muster_puppetral::agent_over(Arc::clone(&self.puppetral), options)?;
        let mut registry = Registry::new();
        for agent in self.agents.iter().cloned().chain([own]) {
            registry.add(agent, Limits::default())?;
        }
        Ok(registry)
    }
}
