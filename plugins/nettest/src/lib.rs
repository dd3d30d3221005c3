//! `nettest`: tests the network from the node: TCP connections, name resolution and echo replies.
//!
//! Sends no data over the connections that it opens. ICMP echo requests are sent by the system's `ping`.

#![warn(missing_docs)]

mod actions;
#[cfg(test)]
mod tests;

use muster_api::{Agent, AgentError, DaemonContext, NoOptions, NodePlugin, PluginError, ddl};

/// Builds the agent with every action that its DDL declares.
pub fn build_agent() -> Result<Agent, AgentError> {
    let document = ddl::builtin_agent("nettest").unwrap_or_default();
    Agent::builder(document)?
        .with_action(actions::NettestConnectAction)
        .with_action(actions::NettestDnsAction)
        .with_action(actions::NettestPingAction)
        .build()
}

/// The agent `nettest`.
#[derive(Debug, Clone, Copy)]
pub struct NettestPlugin;

impl NodePlugin for NettestPlugin {
    const NAME: &'static str = "nettest";
    type Options = NoOptions;
    type Shared = ();

    fn configure(_: NoOptions, _: &DaemonContext, (): ()) -> Result<Self, PluginError> {
        Ok(Self)
    }

    fn agents(&self) -> Result<Vec<Agent>, AgentError> {
        Ok(vec![build_agent()?])
    }
}
