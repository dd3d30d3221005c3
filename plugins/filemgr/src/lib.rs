//! `filemgr`: inspects and reads files, creates empty files and directories, and removes them, within the paths that the node allows.
//!
//! Files are opened by descriptor ([`muster_api::system::confined`]), below the machine's root. The agent does not write contents: that is desired
//! state, for which `puppetral` has resources.

#![warn(missing_docs)]

mod actions;
mod path_policy;
#[cfg(test)]
mod race;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use muster_api::{Agent, AgentError, DaemonContext, NodePlugin, PluginError, ddl};
use serde::Deserialize;

use path_policy::PathPolicy;

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
    let document = ddl::builtin_agent("filemgr").unwrap_or_default();
    let policy = Arc::new(PathPolicy::new(options, daemon_paths));
    Agent::builder(document)?
        .with_action(actions::FilemgrStatusAction(Arc::clone(&policy)))
        .with_action(actions::FilemgrListAction(Arc::clone(&policy)))
        .with_action(actions::FilemgrReadAction(Arc::clone(&policy)))
        .with_action(actions::FilemgrTouchAction(Arc::clone(&policy)))
        .with_action(actions::FilemgrMkdirAction(Arc::clone(&policy)))
        .with_action(actions::FilemgrRemoveAction(policy))
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

    fn configure(options: Options, daemon: &DaemonContext, (): ()) -> Result<Self, PluginError> {
        Ok(Self { options, daemon_paths: daemon.own_paths.clone() })
    }

    fn agents(&self) -> Result<Vec<Agent>, AgentError> {
        let agent = build_agent(self.options.clone(), self.daemon_paths.clone())?;
        Ok(vec![agent])
    }
}
