//! Options of the agent: the table `plugins.provision` of the daemon's configuration.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::delivery::{AcceptedDelivery, SettingPattern};
use crate::fenced_lock::{DISABLED_FILE, PROVISIONING_FILE};

/// Unknown keys are rejected.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Whether the node has the agent. When absent: only if the daemon is or was in provisioning mode.
    pub enabled: Option<bool>,
    /// Program and first arguments of Puppet. When empty: the program of Puppet's packages, or `puppet`.
    pub command: Vec<String>,
    /// Arguments that are appended to every call, such as `--confdir DIR`.
    pub arguments: Vec<String>,
    /// Environment of the first run.
    pub bootstrap_environment: String,
    pub hosts: PathBuf,
    /// The service that runs Puppet's agent in the background.
    pub service: String,
    /// Command that is run instead of starting that service.
    pub daemon_command: Vec<String>,
    /// Longest run of Puppet, in seconds.
    pub run_timeout: u64,
    /// Longest certificate request, in seconds.
    pub request_timeout: u64,
    /// How many nodes of the pool may run Puppet at once; when absent, runs keep the limits of others.
    pub limit: Option<NonZeroU32>,
    pub pool: String,
    /// Longest wait for a permit, in seconds.
    pub permit_wait: u64,
    /// Settings of the daemon that a provisioner may deliver: keys, or tables as `facts.*`. None by default.
    pub accept_settings: Vec<SettingPattern>,
    /// Whether a provisioner may deliver policies.
    pub accept_policies: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            enabled: None,
            command: Vec::new(),
            arguments: Vec::new(),
            bootstrap_environment: "bootstrap".to_owned(),
            hosts: "/etc/hosts".into(),
            service: "puppet".to_owned(),
            daemon_command: Vec::new(),
            run_timeout: 3000,
            request_timeout: 300,
            limit: None,
            pool: "puppet".to_owned(),
            permit_wait: 900,
            accept_settings: Vec::new(),
            accept_policies: false,
        }
    }
}

impl Options {
    /// Whether a node with this state directory has the agent.
    pub fn is_enabled(&self, state: &Path) -> bool {
        let has_marker =
            || [PROVISIONING_FILE, DISABLED_FILE].iter().any(|name| state.join(name).exists());
        self.enabled.unwrap_or_else(has_marker)
    }

    pub(crate) fn accepted_delivery(&self) -> AcceptedDelivery<'_> {
        AcceptedDelivery { settings: &self.accept_settings, policies: self.accept_policies }
    }
}
