//! The section `[plugins.nrpe]`: where checks are configured, and how they run.

use std::path::PathBuf;

use muster_api::{PluginError, PluginResult};
use serde::Deserialize;

const MAX_TIMEOUT_SECONDS: u64 = 3600;
const MAX_CONCURRENCY: usize = 1000;

/// The section `[plugins.nrpe]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NrpeOptions {
    /// Whether the agent is enabled; by default if the configuration file exists when the daemon starts.
    pub enabled: Option<bool>,
    pub config: PathBuf,
    /// Time limit of a check, in seconds. The limit of the request applies, too.
    pub timeout: u64,
    pub concurrency: usize,
    pub schedules: PathBuf,
    /// The user that checks run as if the daemon is root; by default `nrpe_user` of the configuration file, and otherwise root.
    pub user: Option<String>,
}

impl Default for NrpeOptions {
    fn default() -> Self {
        Self {
            enabled: None,
            config: "/etc/nagios/nrpe.cfg".into(),
            timeout: 30,
            concurrency: 4,
            schedules: "/etc/muster/checks.d".into(),
            user: None,
        }
    }
}

impl NrpeOptions {
    pub(super) fn check(&self) -> PluginResult<()> {
        let invalid = |option, problem: String| {
            Err(PluginError::Option { plugin: "nrpe", option, source: problem.into() })
        };
        for (option, path) in [("config", &self.config), ("schedules", &self.schedules)] {
            if !path.is_absolute() {
                return invalid(option, format!("{} is not an absolute path", path.display()));
            }
        }
        if !(1..=MAX_TIMEOUT_SECONDS).contains(&self.timeout) {
            let problem =
                format!("{} is not from 1 to {MAX_TIMEOUT_SECONDS} seconds", self.timeout);
            return invalid("timeout", problem);
        }
        if !(1..=MAX_CONCURRENCY).contains(&self.concurrency) {
            let problem = format!("{} is not from 1 to {MAX_CONCURRENCY}", self.concurrency);
            return invalid("concurrency", problem);
        }
        Ok(())
    }
}
