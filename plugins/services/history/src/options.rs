//! The section `[plugins.history]`.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

const DEFAULT_DIRECTORY: &str = "/var/lib/muster/history-index";
const DEFAULT_KEPT_DAYS: u64 = 90;
/// Four intervals of Puppet.
const DEFAULT_SILENT_HOURS: u64 = 2;

/// The section `[plugins.history]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HistoryOptions {
    /// Whether this host keeps the history.
    pub enabled: bool,
    /// Credentials of a user with the role service.
    pub credentials: PathBuf,
    /// The index is here; `/var/lib/muster/history-index` if absent. A lost one is built again from what the broker still has.
    pub directory: Option<PathBuf>,
    /// What is older is deleted; 90 days if absent.
    pub keep_days: Option<u64>,
    /// A node whose last run began longer ago counts as silent in the metrics; 2 hours if absent.
    pub silent_hours: Option<u64>,
}

impl HistoryOptions {
    pub fn directory(&self) -> PathBuf {
        self.directory.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_DIRECTORY))
    }

    pub fn silent(&self) -> Duration {
        Duration::from_hours(self.silent_hours.unwrap_or(DEFAULT_SILENT_HOURS).max(1))
    }

    pub fn keep(&self) -> Duration {
        Duration::from_hours(24 * self.keep_days.unwrap_or(DEFAULT_KEPT_DAYS).max(1))
    }
}
