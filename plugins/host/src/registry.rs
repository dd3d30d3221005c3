//! Which agents there are, by name, each with its own slots.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use muster_api::{Agent, AgentInfo};
use tokio::sync::Semaphore;

use crate::limits::Limits;

/// The agents of a node. Made once, then only read; a reload makes a new one.
#[derive(Debug, Default)]
pub struct Registry {
    agents: BTreeMap<String, Arc<Slot>>,
}

/// An agent with its limits in force.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) agent: Agent,
    pub(crate) limits: Limits,
    pub(crate) running: Arc<Semaphore>,
    pub(crate) waiting: AtomicUsize,
}

/// Why an agent was not taken in.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// Two plugins of one name.
    #[error("there are two agents of the name {name}; remove one")]
    Twice {
        /// The name.
        name: String,
    },
}

impl Registry {
    /// An empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes an agent in.
    pub fn add(&mut self, agent: Agent, limits: Limits) -> Result<(), RegistryError> {
        let name = agent.name().to_owned();
        if self.agents.contains_key(&name) {
            return Err(RegistryError::Twice { name });
        }
        let running = Arc::new(Semaphore::new(limits.concurrency));
        let slot = Slot {
            agent,
            limits,
            running,
            waiting: AtomicUsize::new(0),
        };
        self.agents.insert(name, Arc::new(slot));
        Ok(())
    }

    /// One agent.
    pub fn agent(&self, name: &str) -> Option<&Agent> {
        self.agents.get(name).map(|slot| &slot.agent)
    }

    /// The names of all agents, sorted.
    pub fn names(&self) -> Vec<String> {
        self.agents.keys().cloned().collect()
    }

    /// The metadata of all agents, sorted by name.
    pub fn infos(&self) -> Vec<AgentInfo> {
        self.agents.values().map(|slot| info(&slot.agent)).collect()
    }

    pub(crate) fn slot(&self, name: &str) -> Option<&Arc<Slot>> {
        self.agents.get(name)
    }
}

fn info(agent: &Agent) -> AgentInfo {
    let metadata = agent.ddl().metadata();
    AgentInfo {
        agent: metadata.name.clone(),
        description: metadata.description.clone(),
        author: metadata.author.clone(),
        license: metadata.license.clone(),
        version: metadata.version.clone(),
        url: metadata.url.clone(),
        timeout: metadata.timeout,
    }
}
