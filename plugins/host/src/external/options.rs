//! The section `[plugins.external]` of the daemon's configuration: where agents are, which, and with which rights.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::sandbox::ResourceLimits;

/// Names that no program from outside may take: what callers, policies and other programs rely on to be the daemon's own.
pub const RESERVED_NAMES: [&str; 1] = ["rpcutil"];

/// Users that agents run as when the configuration names none, the first that the machine has.
pub const UNPRIVILEGED_USERS: [&str; 2] = ["muster-agent", "nobody"];
/// The user that keeps every right; an agent has it only when the configuration says so.
pub const ROOT_USER: &str = "root";

/// Where external agents are, and what they may do.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExternalOptions {
    /// Whether there are any.
    pub enabled: bool,
    /// Directories beside `paths.ddls`. In each, and in `mcollective/agent` below it, agents are looked for.
    pub paths: Vec<PathBuf>,
    /// Names that are never taken in.
    pub deny: BTreeSet<String>,
    /// Built-in agents whose place an external one may take.
    pub replace: BTreeSet<String>,
    /// How often the directories are looked at; 0 is only at the start and at HUP.
    pub poll_seconds: u64,
    /// What single agents may do; `*` is for all that have no table of their own.
    pub agents: BTreeMap<String, ExternalAgentOptions>,
}

impl Default for ExternalOptions {
    fn default() -> Self {
        Self {
            enabled: true,
            paths: Vec::new(),
            deny: BTreeSet::new(),
            replace: BTreeSet::new(),
            poll_seconds: 3,
            agents: BTreeMap::new(),
        }
    }
}

/// What one agent's programs may do.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExternalAgentOptions {
    /// The user to be, by name; absent: an unprivileged one ([`UNPRIVILEGED_USERS`]), or that of a daemon that is not root.
    pub user: Option<String>,
    /// The group to be in, by name; absent: the user's.
    pub group: Option<String>,
    /// Address space in bytes.
    pub memory_bytes: Option<u64>,
    /// Open files.
    pub open_files: Option<u64>,
    /// Processes of the user.
    pub processes: Option<u64>,
    /// Size of any one file in bytes.
    pub file_bytes: Option<u64>,
    /// Processor time.
    pub cpu_seconds: Option<u64>,
    /// Whether files are closed to it that its DDL, `read` and `write` do not name.
    pub confine: ConfinementMode,
    /// Files that it may read, beside those that its DDL names.
    pub read: Vec<PathBuf>,
    /// Files that it may change, beside those that its DDL names.
    pub write: Vec<PathBuf>,
    /// Whether it may use the network; absent: what its DDL says.
    pub network: Option<bool>,
    /// Whether it may connect to Unix sockets of other processes, although it is confined.
    pub unix_sockets: bool,
}

impl Default for ExternalAgentOptions {
    fn default() -> Self {
        Self {
            user: None,
            group: None,
            memory_bytes: None,
            open_files: Some(1024),
            processes: None,
            file_bytes: Some(1024 * 1024 * 1024),
            cpu_seconds: None,
            confine: ConfinementMode::Declared,
            read: Vec::new(),
            write: Vec::new(),
            network: None,
            unix_sockets: false,
        }
    }
}

/// When a program is confined to files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConfinementMode {
    /// When its DDL declares capabilities, as far as the kernel can.
    #[default]
    Declared,
    /// Always, and a kernel that cannot is a reason not to run it.
    Required,
    /// Never.
    Off,
}

impl ExternalOptions {
    /// What this agent may do.
    pub fn agent_options(&self, agent: &str) -> ExternalAgentOptions {
        let found = self.agents.get(agent).or_else(|| self.agents.get("*"));
        found.cloned().unwrap_or_default()
    }

    /// The pause between two looks at the directories, if there are to be any.
    pub fn poll_interval(&self) -> Option<Duration> {
        (self.enabled && self.poll_seconds > 0).then(|| Duration::from_secs(self.poll_seconds))
    }
}

impl ExternalAgentOptions {
    /// Whether the configuration lets this agent run as root.
    pub fn is_root(&self) -> bool {
        self.user.as_deref() == Some(ROOT_USER)
    }

    pub(crate) fn resource_limits(&self) -> ResourceLimits {
        ResourceLimits {
            memory_bytes: self.memory_bytes,
            open_files: self.open_files,
            processes: self.processes,
            file_bytes: self.file_bytes,
            cpu_seconds: self.cpu_seconds,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{ConfinementMode, ExternalOptions};

    #[test]
    fn an_agent_has_its_own_table_or_that_of_all() {
        let options: ExternalOptions = serde_json::from_value(json!({"agents": {
            "*": {"user": "nobody"}, "disk": {"confine": "required", "read": ["/srv"]}
        }}))
        .unwrap();
        assert_eq!(options.agent_options("x").user.as_deref(), Some("nobody"));
        let disk = options.agent_options("disk");
        assert_eq!((disk.user, disk.confine), (None, ConfinementMode::Required));
        assert_eq!(
            ExternalOptions::default().agent_options("x").open_files,
            Some(1024)
        );
        assert!(
            serde_json::from_value::<ExternalOptions>(json!({"agents": {"x": {"usr": "y"}}}))
                .is_err()
        );
    }
}
