//! `nettest`: tests the network from the node: TCP connections, name resolution and echo replies.
//!
//! Sends no data over the connections that it opens. ICMP echo requests are sent by the system's `ping`.

#![warn(missing_docs)]

mod actions;
#[cfg(test)]
mod tests;

use muster_api::{Agent, AgentError, NoState, StatelessPlugin};

use actions::{connect, dns, ping};

/// The agent `nettest`.
#[derive(Debug, Default, Clone, Copy)]
pub struct NettestPlugin;

impl StatelessPlugin for NettestPlugin {
    const NAME: &'static str = "nettest";

    fn create_agent() -> Result<Agent, AgentError> {
        Agent::builtin(Self::NAME)?
            .action("connect", &NoState, connect::connect_port)
            .action("dns", &NoState, dns::resolve_name)
            .blocking_action("ping", &NoState, ping::ping_host)
            .ending_at_deadline(["connect", "dns", "ping"])
            .build()
    }
}
