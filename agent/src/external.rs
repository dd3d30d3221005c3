//! External agents of a running daemon: what changes on the shelf changes what the node offers, at once and without a restart.
//!
//! What an external agent is, and how it is run, is the host's business.

use std::sync::Arc;
use std::time::Duration;

use muster_api::{Agent, AgentProblem};
use muster_host::Registry;
use muster_host::external::{Change, Settle, Shelf};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::agents;
use crate::config::Limits;
use crate::core::Core;

/// The external agents of one daemon.
#[derive(Debug)]
pub struct Externals {
    core: Arc<Core>,
    limits: Limits,
    /// The agents of the product itself, which come back when what took their place goes.
    built_in: Arc<Registry>,
    shelf: Mutex<Shelf>,
}

impl Externals {
    /// Takes over a shelf for a daemon that offers its built-in agents so far.
    pub fn new(core: Arc<Core>, limits: Limits, shelf: Shelf) -> Self {
        Self {
            built_in: core.everything(),
            core,
            limits,
            shelf: Mutex::new(shelf),
        }
    }

    /// Looks for changes, and makes them.
    pub async fn look(&self, settle: Settle) {
        let mut guarded = self.shelf.lock().await;
        let changes = guarded.look(settle).await;
        if !changes.is_empty() {
            let mut registry = Registry::clone(&self.core.everything());
            for change in changes {
                self.make(change, &mut registry);
            }
            self.core.set_registry(registry);
        }
        let problems = guarded.problems().into_iter().map(|problem| AgentProblem {
            agent: problem.agent,
            path: problem.path.display().to_string(),
            problem: problem.problem,
        });
        self.core.set_agent_problems(problems.collect());
    }

    /// Looks again and again, until `stop`.
    pub async fn watch(self: Arc<Self>, pause: Duration, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(pause) => self.look(Settle::Wait).await,
                () = stop.cancelled() => return,
            }
        }
    }

    fn make(&self, change: Change, registry: &mut Registry) {
        match change {
            Change::Offered(agent) => self.offer(agent, registry),
            Change::Withdrawn(name) => match self.built_in.agent(&name) {
                Some(built_in) => self.offer(built_in.clone(), registry),
                None => registry.remove(&name),
            },
        }
    }

    fn offer(&self, agent: Agent, registry: &mut Registry) {
        let limits = agents::limits(&self.limits, agent.name());
        registry.replace(agent, limits);
    }
}
