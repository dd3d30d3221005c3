//! `filemgr`: looks at files of the node, reads them, makes empty ones, and removes them, within the paths that the node allows.
//!
//! Files are reached through the machine ([`muster_api::system::System`]) only. Contents are not written: that is a state to
//! be kept, and a resource for `puppetral`.

#![warn(missing_docs)]

mod actions;
mod fence;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use muster_api::{Agent, AgentError, ddl};
use serde::Deserialize;

use fence::Fence;

/// The section `[plugins.filemgr]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Directories and files that may be touched, with everything below them.
    pub allow: Vec<PathBuf>,
    /// Those of them that may not.
    pub deny: Vec<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            allow: vec!["/".into()],
            deny: [
                "/etc/shadow",
                "/etc/gshadow",
                "/etc/muster",
                "/proc",
                "/sys",
                "/dev",
            ]
            .map(PathBuf::from)
            .to_vec(),
        }
    }
}

/// The agent, with every action that its DDL declares.
pub fn agent(options: Options) -> Result<Agent, AgentError> {
    let document = ddl::builtin("filemgr").unwrap_or_default();
    let fence = Arc::new(Fence::new(options));
    Agent::builder(document)?
        .action(actions::Status(Arc::clone(&fence)))
        .action(actions::List(Arc::clone(&fence)))
        .action(actions::Read(Arc::clone(&fence)))
        .action(actions::Touch(Arc::clone(&fence)))
        .action(actions::Mkdir(Arc::clone(&fence)))
        .action(actions::Remove(fence))
        .build()
}
