//! `shell`: runs programs, at once or for long, for callers whom the node's operator trusts with that.
//!
//! Off unless `[plugins.shell] enabled = true`, and then still nobody's without a policy. `run` waits for the program; `start`
//! leaves it as a *job* that outlives the daemon, with its output in a bounded spool. Environment and input of programs are
//! never written down. Programs are started by the machine ([`muster_api::system::System`]); only the spool is our own.

#![warn(missing_docs)]

mod actions;
mod jobs;
mod output;
mod program;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use muster_api::{Agent, AgentError, ddl};
use serde::Deserialize;

use jobs::ShellJobStore;

/// The section `[plugins.shell]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Whether the node has the agent at all.
    pub enabled: bool,
    /// Bytes that are kept of each output stream of a job.
    pub spool_bytes: u64,
    /// Jobs that are remembered; the oldest that have ended are forgotten first. So many may run at once.
    pub jobs: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            enabled: false,
            spool_bytes: 16 * 1024 * 1024,
            jobs: 100,
        }
    }
}

/// The agent, with every action that its DDL declares. `directory` is where jobs are kept; it is made when there is one.
pub fn build_agent(options: Options, directory: PathBuf) -> Result<Agent, AgentError> {
    let document = ddl::builtin_agent("shell").unwrap_or_default();
    let jobs = Arc::new(ShellJobStore::new(directory, options));
    Agent::builder(document)?
        .with_action(actions::ShellRunAction)
        .with_action(actions::ShellStartAction(Arc::clone(&jobs)))
        .with_action(actions::ShellStatusAction(Arc::clone(&jobs)))
        .with_action(actions::ShellTailAction(Arc::clone(&jobs)))
        .with_action(actions::ShellListAction(Arc::clone(&jobs)))
        .with_action(actions::ShellKillAction(jobs))
        .build()
}
