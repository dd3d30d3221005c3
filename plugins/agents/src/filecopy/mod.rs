//! `filecopy`: receives files from callers and sends files to them, in parts, within the paths that the node allows.
//!
//! Disabled unless `[plugins.filecopy]` allows a path, and even then denied without a policy. A copy that is received is written to a hidden file in
//! the directory of its target, verified by its SHA-256, and renamed. What is missing is known from a map of its parts, so that a copy can be
//! resumed, also after a restart of the daemon. The agent decides nothing about what to copy: that is the caller's work.

mod actions;
mod attributes;
mod digest;
#[cfg(test)]
mod tests;
mod transfer;
mod transfer_store;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use muster_api::{Agent, AgentError, DaemonContext, NodePlugin, PluginResult};
use muster_contract::filecopy::{
    FilecopyAbort, FilecopyAgent, FilecopyBegin, FilecopyFinish, FilecopyInspect, FilecopyRead,
    FilecopyWrite,
};

use crate::path_policy::{PathPolicy, PathRules};
use serde::Deserialize;

use actions::{fetch, receive};
use transfer_store::TransferStore;

/// The section `[plugins.filecopy]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Directories and files that callers may write, with everything below them.
    pub write: Vec<PathBuf>,
    /// Directories and files that callers may fetch, with everything below them.
    pub read: Vec<PathBuf>,
    /// Exceptions from both. The machine's secrets and the daemon's own files are always denied as well.
    pub deny: Vec<PathBuf>,
    /// Maximum size of a file that is received, in bytes.
    pub max_bytes: u64,
    /// Maximum number of unfinished copies.
    pub transfers: usize,
    /// Time after the last part until an unfinished copy is removed, in seconds.
    pub expiry_seconds: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            write: Vec::new(),
            read: Vec::new(),
            deny: ["/proc", "/sys", "/dev"].map(PathBuf::from).to_vec(),
            max_bytes: 4 * 1024 * 1024 * 1024,
            transfers: 100,
            expiry_seconds: 24 * 60 * 60,
        }
    }
}

/// Builds the agent with every action that its DDL declares. `directory` holds what is known of unfinished copies, and is created with the first
/// one. `daemon_paths` are the daemon's configuration, state, audit log and credentials, as paths of the host; no action touches them.
pub fn build_agent(
    options: Options,
    directory: PathBuf,
    daemon_paths: Vec<PathBuf>,
) -> Result<Agent, AgentError> {
    let Options { write, read, deny, max_bytes, transfers, expiry_seconds } = options;
    let rules = |allow: Vec<PathBuf>, allow_key| PathRules {
        allow,
        deny: deny.clone(),
        allow_key,
        deny_key: "plugins.filecopy.deny",
    };
    let writable = rules(write, "plugins.filecopy.write");
    let readable = rules(read, "plugins.filecopy.read");
    let readable = Arc::new(PathPolicy::new(readable, daemon_paths.clone()));
    let store = Arc::new(TransferStore::new(
        directory,
        PathPolicy::new(writable, daemon_paths),
        Duration::from_secs(expiry_seconds),
        transfers,
        max_bytes,
    ));
    Agent::builder_for::<FilecopyAgent>()?
        .blocking_action(FilecopyBegin, &store, receive::begin_transfer)
        .blocking_action(FilecopyWrite, &store, receive::write_chunk)
        .blocking_action(FilecopyFinish, &store, receive::finish_transfer)
        .blocking_action(FilecopyAbort, &store, receive::abort_transfer)
        .blocking_action(FilecopyInspect, &readable, fetch::inspect_file)
        .blocking_action(FilecopyRead, &readable, fetch::read_chunk)
        .build()
}

/// The agent `filecopy`.
#[derive(Debug, Clone)]
pub struct FilecopyPlugin {
    options: Options,
    directory: PathBuf,
    daemon_paths: Vec<PathBuf>,
}

impl NodePlugin for FilecopyPlugin {
    const NAME: &'static str = "filecopy";
    type Options = Options;
    type Shared = ();

    fn configure(options: Options, daemon: &DaemonContext, (): ()) -> PluginResult<Self> {
        let directory = daemon.state.join("filecopy");
        Ok(Self { options, directory, daemon_paths: daemon.own_paths.clone() })
    }

    fn is_enabled(&self) -> bool {
        !self.options.write.is_empty() || !self.options.read.is_empty()
    }

    fn build_agent(&self) -> Result<Agent, AgentError> {
        build_agent(self.options.clone(), self.directory.clone(), self.daemon_paths.clone())
    }
}
