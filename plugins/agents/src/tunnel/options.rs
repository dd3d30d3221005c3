//! The section `[plugins.tunnel]`.

use std::time::Duration;

use muster_api::{NodePlugin as _, PluginError, PluginResult};
use serde::Deserialize;

use crate::tunnel::TunnelPlugin;

/// Each tunnel has a subscription, of which a node has 256; and the windows of more tunnels would exceed what the broker keeps for a connection.
const MAX_TUNNELS: usize = 192;
/// The other end sends something every third of the silence, and a broker may take some seconds to restart.
const MIN_SILENCE_SECONDS: u64 = 3;

/// Options of the agent.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TunnelOptions {
    /// Whether the agent is enabled.
    pub enabled: bool,
    /// The ports on 127.0.0.1 that tunnels may reach.
    pub ports: Vec<u16>,
    /// Most open tunnels.
    pub max_tunnels: usize,
    /// Most open tunnels of one caller.
    pub max_tunnels_per_caller: usize,
    /// A tunnel that carries no data for this time is closed.
    pub idle_timeout_seconds: u64,
    /// A tunnel whose caller is silent for this time is closed.
    pub silence_seconds: u64,
}

impl Default for TunnelOptions {
    fn default() -> Self {
        Self {
            enabled: false,
            ports: vec![22],
            max_tunnels: 128,
            max_tunnels_per_caller: 128,
            idle_timeout_seconds: 4 * 3600,
            silence_seconds: 60,
        }
    }
}

impl TunnelOptions {
    pub(crate) fn check(&self) -> PluginResult<()> {
        let invalid = |option, problem: String| {
            Err(PluginError::Option { plugin: TunnelPlugin::NAME, option, source: problem.into() })
        };
        if self.ports.contains(&0) {
            return invalid("ports", "0 is not a port".to_owned());
        }
        for (option, number) in [
            ("max_tunnels", self.max_tunnels),
            ("max_tunnels_per_caller", self.max_tunnels_per_caller),
        ] {
            if !(1..=MAX_TUNNELS).contains(&number) {
                return invalid(option, format!("{number} is not from 1 to {MAX_TUNNELS}"));
            }
        }
        if self.idle_timeout_seconds == 0 {
            return invalid("idle_timeout_seconds", "0 is not a time; use 1 or more".to_owned());
        }
        if self.silence_seconds < MIN_SILENCE_SECONDS {
            let problem = format!("{} is less than {MIN_SILENCE_SECONDS}", self.silence_seconds);
            return invalid("silence_seconds", problem);
        }
        Ok(())
    }

    pub(crate) fn idle_timeout(&self) -> Duration {
        Duration::from_secs(self.idle_timeout_seconds)
    }

    pub(crate) fn silence(&self) -> Duration {
        Duration::from_secs(self.silence_seconds)
    }
}
