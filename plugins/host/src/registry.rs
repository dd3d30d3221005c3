//! Registry of the agents by name, each with its own permits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use muster_api::Agent;
use muster_api::ddl::AgentDdl;
use tokio::sync::Semaphore;

use crate::limits::CallLimits;

/// Immutable while in use: a change creates a new registry, and running calls keep the old one.
#[derive(Debug, Clone, Default)]
pub struct AgentRegistry {
    agents: BTreeMap<String, Arc<AgentSlot>>,
    names: Vec<String>,
}

/// An agent with its active limits.
#[derive(Debug)]
pub(crate) struct AgentSlot {
    pub(crate) agent: Agent,
    pub(crate) limits: CallLimits,
    pub(crate) running: Arc<Semaphore>,
    pub(crate) waiting: Arc<AtomicUsize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentLoad {
    pub agent: String,
    /// Calls that run.
    pub running: usize,
    /// Calls that wait for a permit.
    pub waiting: usize,
    pub limits: CallLimits,
}

/// Why an agent was not added.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    #[error("there are two agents with the name `{name}`; remove one")]
    Duplicate { name: String },
}

impl AgentRegistry {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn add(&mut self, agent: Agent, limits: CallLimits) -> Result<(), RegistryError> {
        let name = agent.name().to_owned();
        if self.agents.contains_key(&name) {
            return Err(RegistryError::Duplicate { name });
        }
        self.replace(agent, limits);
        Ok(())
    }

    /// Adds an agent, or replaces another version of it. Calls of both versions count against the same limits.
    pub fn replace(&mut self, agent: Agent, limits: CallLimits) {
        let name = agent.name().to_owned();
        let previous = self.agents.get(&name).filter(|slot| slot.limits == limits);
        let (running, waiting) = match previous {
            Some(slot) => (Arc::clone(&slot.running), Arc::clone(&slot.waiting)),
            None => (Arc::new(Semaphore::new(limits.concurrency)), Arc::default()),
        };
        let slot = AgentSlot { agent, limits, running, waiting };
        self.agents.insert(name, Arc::new(slot));
        self.names = self.agents.keys().cloned().collect();
    }

    /// Running calls of the agent continue.
    pub fn remove(&mut self, name: &str) {
        self.agents.remove(name);
        self.names = self.agents.keys().cloned().collect();
    }

    pub fn agent(&self, name: &str) -> Option<&Agent> {
        self.agents.get(name).map(|slot| &slot.agent)
    }

    /// The names of all agents, sorted.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The DDLs of all agents, sorted by name.
    pub fn agent_ddls(&self) -> Vec<Arc<AgentDdl>> {
        self.agents.values().map(|slot| Arc::clone(slot.agent.ddl())).collect()
    }

    /// The current load of each agent, sorted by name.
    pub fn agent_loads(&self) -> Vec<AgentLoad> {
        let load = |(name, slot): (&String, &Arc<AgentSlot>)| AgentLoad {
            agent: name.clone(),
            running: slot.limits.concurrency.saturating_sub(slot.running.available_permits()),
            waiting: slot.waiting.load(Ordering::Relaxed),
            limits: slot.limits,
        };
        self.agents.iter().map(load).collect()
    }

    pub(crate) fn find_slot(&self, name: &str) -> Option<&Arc<AgentSlot>> {
        self.agents.get(name)
    }
}
