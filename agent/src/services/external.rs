//! External agents of a running daemon: applies changes in the agent directories to the registry, without a restart.
//!
//! The host crate loads and runs external agents.

use std::sync::Arc;
use std::time::Duration;

use muster_api::{Agent, AgentProblem};
use muster_host::AgentRegistry;
use muster_host::external::{AgentChange, AgentDirectory, ScanMode};
use muster_node::config::LimitsConfig;
use muster_node::core::DaemonCore;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

#[derive(Debug)]
pub struct ExternalAgentManager {
    core: Arc<DaemonCore>,
    limits: LimitsConfig,
    /// The built-in agents, which return when an external replacement is removed.
    built_in: Arc<AgentRegistry>,
    directory: Mutex<AgentDirectory>,
}

impl ExternalAgentManager {
    /// Manages these directories for a daemon that currently offers its built-in agents.
    pub fn new(core: Arc<DaemonCore>, limits: LimitsConfig, directory: AgentDirectory) -> Self {
        Self { built_in: core.all_agents.get(), core, limits, directory: Mutex::new(directory) }
    }

    pub async fn scan_and_apply(&self, mode: ScanMode) {
        let mut directory = self.directory.lock().await;
        let changes = directory.scan(mode).await;
        if !changes.is_empty() {
            let mut registry = AgentRegistry::clone(&self.core.all_agents.get());
            for change in changes {
                self.apply_change(change, &mut registry);
            }
            self.core.set_registry(registry);
        }
        let problems = directory.problems().into_iter().map(|problem| AgentProblem {
            agent: problem.agent,
            path: problem.path.display().to_string(),
            problem: problem.problem,
        });
        self.core.agent_problems.set(problems.collect());
    }

    pub async fn poll_changes(self: Arc<Self>, interval: Duration, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(interval) => self.scan_and_apply(ScanMode::Wait).await,
                () = stop.cancelled() => return,
            }
        }
    }

    fn apply_change(&self, change: AgentChange, registry: &mut AgentRegistry) {
        match change {
            AgentChange::Offered(agent) => self.offer_agent(agent, registry),
            AgentChange::Withdrawn(name) => match self.built_in.agent(&name) {
                Some(built_in) => self.offer_agent(built_in.clone(), registry),
                None => registry.remove(&name),
            },
        }
    }

    fn offer_agent(&self, agent: Agent, registry: &mut AgentRegistry) {
        let limits = self.limits.agent_limits(agent.name());
        registry.replace(agent, limits);
    }
}
