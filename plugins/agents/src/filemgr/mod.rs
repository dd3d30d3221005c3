//! `filemgr`: inspects and reads files, creates empty files and directories, and removes them, within the paths that the node allows.
//!
//! Files are opened by descriptor ([`muster_api::system::confined`]), below the machine's root. The agent does not write contents: that is desired
//! state, for which `puppetral` has resources.

mod actions;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use muster_api::{Agent, AgentError, DaemonContext, NodePlugin, PluginResult};
use muster_contract::filemgr::{
    FilemgrAgent, FilemgrList, FilemgrMkdir, FilemgrRead, FilemgrRemove, FilemgrStatus,
    FilemgrTouch,
};
use serde::Deserialize;

use crate::path_policy::{PathPolicy, PathRules};
use actions::{create, list, read, remove, status};

/// The section `[plugins.filemgr]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Allowed directories and files, with everything below them.
    pub allow: Vec<PathBuf>,
    /// Exceptions from `allow`. The machine's secrets and the daemon's own files are always denied as well.
    pub deny: Vec<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            allow: vec!["/".into()],
            deny: ["/proc", "/sys", "/dev"].map(PathBuf::from).to_vec(),
        }
    }
}

/// Builds the agent with every action that its DDL declares. `daemon_paths` are the daemon's configuration, state, audit log and credentials, as
/// paths of the host; no action touches them.
pub fn build_agent(options: Options, daemon_paths: Vec<PathBuf>) -> Result<Agent, AgentError> {
    let Options { allow, deny } = options;
    let rules = PathRules {
        allow,
        deny,
        allow_key: "plugins.filemgr.allow",
        deny_key: "plugins.filemgr.deny",
    };
    let policy = Arc::new(PathPolicy::new(rules, daemon_paths));
    Agent::builder_for::<FilemgrAgent>()?
        .blocking_action(FilemgrStatus, &policy, status::inspect_path)
        .blocking_action(FilemgrList, &policy, list::list_directory)
        .blocking_action(FilemgrRead, &policy, read::read_file)
        .blocking_action(FilemgrTouch, &policy, create::touch_file)
        .blocking_action(FilemgrMkdir, &policy, create::make_directory)
        .blocking_action(FilemgrRemove, &policy, remove::remove_path)
        .build()
}

/// The agent `filemgr`.
#[derive(Debug, Clone)]
pub struct FilemgrPlugin {
    options: Options,
    daemon_paths: Vec<PathBuf>,
}

impl NodePlugin for FilemgrPlugin {
    const NAME: &'static str = "filemgr";
    type Options = Options;
    type Shared = ();

    fn configure(options: Options, daemon: &DaemonContext, (): ()) -> PluginResult<Self> {
        Ok(Self { options, daemon_paths: daemon.own_paths.clone() })
    }

    fn build_agent(&self) -> Result<Agent, AgentError> {
        build_agent(self.options.clone(), self.daemon_paths.clone())
    }
}
