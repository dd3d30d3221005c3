//! Options of the agent: the table `plugins.release` of the daemon's configuration.

use std::time::Duration;

use muster_api::{PluginError, PluginResult};
use muster_puppet::CatalogEngine;
use serde::Deserialize;

/// Shortest time between two runs, in seconds.
const MIN_INTERVAL_SECONDS: u64 = 1;

/// The options. Unknown keys are rejected.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReleaseOptions {
    /// Whether the node follows releases.
    pub enabled: bool,
    /// What applies catalogs.
    pub engine: CatalogEngine,
    /// Seconds between the runs that the node starts by itself.
    pub interval: u64,
    /// Seconds between two looks for a promotion that came while the node was away.
    pub poll: u64,
}

impl Default for ReleaseOptions {
    fn default() -> Self {
        Self { enabled: false, engine: CatalogEngine::Native, interval: 1800, poll: 300 }
    }
}

/// An interval that is too short.
#[derive(Debug, thiserror::Error)]
#[error("{found} seconds are too short; the least is {MIN_INTERVAL_SECONDS}")]
struct IntervalError {
    found: u64,
}

impl ReleaseOptions {
    pub(super) fn check(&self) -> PluginResult<()> {
        for (option, found) in [("interval", self.interval), ("poll", self.poll)] {
            if found < MIN_INTERVAL_SECONDS {
                let (plugin, source) = ("release", Box::new(IntervalError { found }));
                return Err(PluginError::Option { plugin, option, source });
            }
        }
        Ok(())
    }

    pub(super) fn interval(&self) -> Duration {
        Duration::from_secs(self.interval)
    }

    pub(super) fn poll(&self) -> Duration {
        Duration::from_secs(self.poll)
    }
}
