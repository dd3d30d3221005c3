//! The section `[plugins.external]` of the daemon's configuration: the directories, the accepted agents, and their privileges.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::sandbox::ResourceLimits;

/// Names that external agents must not use. Callers, policies and other programs rely on these being built in.
pub const RESERVED_NAMES: [&str; 1] = ["rpcutil"];

/// Default users for agents without a configured user; the first that exists on the machine is used.
pub const UNPRIVILEGED_USERS: [&str; 2] = ["muster-agent", "nobody"];
/// The user with all privileges; an agent runs as it only if the configuration says so.
pub const ROOT_USER: &str = "root";

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExternalOptions {
    pub enabled: bool,
    /// Directories besides `paths.ddls`. Agents are searched in each of them and in `mcollective/agent` below it.
    pub paths: Vec<PathBuf>,
    /// Names that are never loaded.
    pub deny: BTreeSet<String>,
    /// Built-in agents that an external agent may replace.
    pub replace: BTreeSet<String>,
    /// Scan interval in seconds; 0 scans only at start and on HUP.
    pub poll_seconds: u64,
    /// Options of single agents; `*` applies to all agents without a table of their own.
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

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExternalAgentOptions {
    /// The user name; absent: an unprivileged user ([`UNPRIVILEGED_USERS`]), or the daemon's user if the daemon does not run as root.
    pub user: Option<String>,
    /// The group name; absent: the user's group.
    pub group: Option<String>,
    /// Address space in bytes.
    pub memory_bytes: Option<u64>,
    pub open_files: Option<u64>,
    /// Processes of the user.
    pub processes: Option<u64>,
    /// Size of any one file in bytes.
    pub file_bytes: Option<u64>,
    pub cpu_seconds: Option<u64>,
    /// Whether access is limited to files that its DDL, `read` and `write` name.
    pub confine: ConfinementMode,
    /// Files that it may read, besides those in its DDL.
    pub read: Vec<PathBuf>,
    /// Files that it may change, besides those in its DDL.
    pub write: Vec<PathBuf>,
    /// Whether it may use the network; absent: as its DDL declares.
    pub network: Option<bool>,
    /// Whether it may connect to Unix sockets of other processes while confined.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConfinementMode {
    /// When its DDL declares capabilities; enforced as far as the kernel supports it.
    #[default]
    Declared,
    /// Always; the program does not run if the kernel does not support it.
    Required,
    Off,
}

impl ExternalOptions {
    pub fn agent_options(&self, agent: &str) -> ExternalAgentOptions {
        let found = self.agents.get(agent).or_else(|| self.agents.get("*"));
        found.cloned().unwrap_or_default()
    }

    /// The pause between two scans, if periodic scans are enabled.
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
    fn agent_uses_its_own_table_or_the_default_table() {
        let options: ExternalOptions = serde_json::from_value(json!({"agents": {
            "*": {"user": "nobody"}, "disk": {"confine": "required", "read": ["/srv"]}
        }}))
        .unwrap();
        assert_eq!(options.agent_options("x").user.as_deref(), Some("nobody"));
        let disk = options.agent_options("disk");
        assert_eq!((disk.user, disk.confine), (None, ConfinementMode::Required));
        assert_eq!(ExternalOptions::default().agent_options("x").open_files, Some(1024));
        assert!(
            serde_json::from_value::<ExternalOptions>(json!({"agents": {"x": {"usr": "y"}}}))
                .is_err()
        );
    }
}
