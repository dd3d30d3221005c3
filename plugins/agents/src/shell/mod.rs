//! `shell`: runs programs, in the foreground or as jobs, for callers that the node's operator allows.
//!
//! Disabled unless `[plugins.shell] enabled = true`, and even then denied without a policy. `run` waits for the program; `start` runs it as
//! a *job* that outlives the daemon, with its output in a bounded spool. Environment and standard input of programs are never stored.
//! Programs are started through [`muster_api::system::System`]; only the spool is read directly.

mod actions;
mod jobs;
mod output;
mod program;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use muster_api::{Agent, AgentError, DaemonContext, NoState, NodePlugin, PluginResult};
use muster_contract::shell::{
    ShellAgent, ShellKill, ShellList, ShellRun, ShellStart, ShellStatus, ShellTail,
};
use serde::Deserialize;

use actions::{run, tail};
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
    let jobs = Arc::new(ShellJobStore::new(directory, options));
    Agent::builder_for::<ShellAgent>()?
        .blocking_action(ShellRun, &NoState, run::run_program)
        .blocking_action(ShellStart, &jobs, actions::jobs::start_job)
        .blocking_action(ShellStatus, &jobs, actions::jobs::query_job)
        .action(ShellTail, &jobs, tail::tail_job)
        .blocking_action(ShellList, &jobs, actions::jobs::list_jobs)
        .blocking_action(ShellKill, &jobs, actions::jobs::kill_job)
        .ending_at_deadline(ShellRun)
        .ending_at_deadline(ShellTail)
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

    fn configure(options: Options, daemon: &DaemonContext, (): ()) -> PluginResult<Self> {
        Ok(Self { options, jobs: daemon.state.join("shell") })
    }

    fn is_enabled(&self) -> bool {
        self.options.enabled
    }

    fn build_agent(&self) -> Result<Agent, AgentError> {
        build_agent(self.options, self.jobs.clone())
    }
}
