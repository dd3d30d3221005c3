//! `tunnel`: connects callers to ports of the node through the bus, for nodes that cannot be reached otherwise.
//!
//! Disabled unless `[plugins.tunnel] enabled = true`, and even then denied without a policy. The node connects to 127.0.0.1 only, and only to the configured ports.
//! A tunnel belongs to the key that signed its request: data of any other key does not reach it, and is not encrypted with its keys.

mod actions;
mod hub;
mod options;

use muster_api::{Agent, AgentError, DaemonContext, NodePlugin, PluginResult};
use muster_contract::tunnel::{TunnelAgent, TunnelOpen};

pub use hub::{TunnelCounts, TunnelHub};
pub use options::TunnelOptions;

use actions::TunnelOpener;

/// The agent `tunnel`.
#[derive(Debug, Clone)]
pub struct TunnelPlugin {
    options: TunnelOptions,
    hub: TunnelHub,
}

impl NodePlugin for TunnelPlugin {
    const NAME: &'static str = "tunnel";
    type Options = TunnelOptions;
    type Shared = TunnelHub;

    fn configure(options: TunnelOptions, _: &DaemonContext, hub: TunnelHub) -> PluginResult<Self> {
        options.check()?;
        Ok(Self { options, hub })
    }

    fn is_enabled(&self) -> bool {
        self.options.enabled
    }

    fn build_agent(&self) -> Result<Agent, AgentError> {
        let opener = TunnelOpener::new(self.options.clone(), self.hub.clone());
        Agent::builder_for::<TunnelAgent>()?
            .action(TunnelOpen, &opener, actions::open_tunnel)
            .build()
    }
}

#[cfg(test)]
mod tests {
    use muster_api::NodePlugin as _;
    use serde_json::{Map, json};

    use super::*;

    fn configure(section: &serde_json::Value) -> PluginResult<TunnelPlugin> {
        let section = section.as_object().cloned().unwrap_or_default();
        let options = TunnelPlugin::parse_options(section)?;
        TunnelPlugin::configure(options, &DaemonContext::default(), TunnelHub::default())
    }

    #[test]
    fn agent_is_disabled_and_permits_only_sshd_by_default() {
        let plugin = configure(&json!({})).unwrap();
        assert!(plugin.agents().unwrap().is_empty());
        assert_eq!(plugin.options.ports, [22]);
        let enabled = configure(&json!({"enabled": true, "ports": [22, 5432]})).unwrap();
        assert_eq!(enabled.agents().unwrap().len(), 1);
        assert_eq!(TunnelPlugin::parse_options(Map::new()).unwrap(), TunnelOptions::default());
    }

    #[test]
    fn options_out_of_range_are_refused() {
        for section in [
            json!({"max_tunnels": 0}),
            json!({"max_tunnels": 193}),
            json!({"max_tunnels_per_caller": 0}),
            json!({"idle_timeout_seconds": 0}),
            json!({"silence_seconds": 2}),
            json!({"ports": [0]}),
            json!({"ports": [65536]}),
            json!({"host": "db1"}),
        ] {
            assert!(configure(&section).is_err(), "{section}");
        }
    }
}
