//! `shell`: runs programs, in the foreground or as jobs, for callers that the node's operator allows.
//!
//! Disabled unless `[plugins.shell] enabled = true`, and even then denied without a policy. `run` waits for the program; `start` runs it as
//! a *job* that outlives the daemon, with its output in a bounded spool. Environment and standard input of programs are never stored.
//! Programs are started through [`muster_api::system::System`]; only the spool is read directly.

#![warn(missing_docs)]

mod actions;
mod jobs;
mod output;
mod program;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use muster_api::{Agent, AgentError, DaemonContext, NodePlugin, PluginError, ddl};
use serde::Deserialize;

use jobs::ShellJobStore;

/// The section `[plugins.shell]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Whether the agent is enabled.
    pub enabled: bool,
    /// Bytes kept of each output stream of a job.
    pub spool_bytes: u64,
    /// Most recorded jobs, and so the most running ones. The oldest ended jobs are removed first.
    pub jobs: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { enabled: false, spool_bytes: 16 * 1024 * 1024, jobs: 100 }
    }
}

/// Builds the agent with every action that its DDL declares. `directory` holds the jobs and is created with the first one.
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

/// The agent `shell`.
#[derive(Debug, Clone)]
pub struct ShellPlugin {
    options: Options,
    jobs: PathBuf,
}

impl NodePlugin for ShellPlugin {
    const NAME: &'static str = "shell";
    type Options = Options;
    type Shared = ();

    fn configure(options: Options, daemon: &DaemonContext, (): ()) -> Result<Self, PluginError> {
        Ok(Self { options, jobs: daemon.state.join("shell") })
    }

    fn agents(&self) -> Result<Vec<Agent>, AgentError> {
        if !self.options.enabled {
            return Ok(Vec::new());
        }
        Ok(vec![build_agent(self.options, self.jobs.clone())?])
    }
}
