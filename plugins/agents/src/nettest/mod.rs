//! `nettest`: tests the network from the node: TCP connections, name resolution and echo replies.
//!
//! Sends no data over the connections that it opens. ICMP echo requests are sent by the system's `ping`.

mod actions;
#[cfg(test)]
mod tests;

use muster_api::{Agent, AgentError, NoState, StatelessPlugin};
use muster_contract::nettest::{NettestAgent, NettestConnect, NettestDns, NettestPing};

use actions::{connect, dns, ping};

/// The agent `nettest`.
#[derive(Debug, Default, Clone, Copy)]
pub struct NettestPlugin;

impl StatelessPlugin for NettestPlugin {
    const NAME: &'static str = "nettest";

    fn create_agent() -> Result<Agent, AgentError> {
        Agent::builder_for::<NettestAgent>()?
            .action(NettestConnect, &NoState, connect::connect_port)
            .action(NettestDns, &NoState, dns::resolve_name)
            .blocking_action(NettestPing, &NoState, ping::ping_host)
            .ending_at_deadline(NettestConnect)
            .ending_at_deadline(NettestDns)
            .ending_at_deadline(NettestPing)
            .build()
    }
}
