//! `nettest`: tests the network from the node: TCP connections, name resolution and echo replies.
//!
//! Sends no data over the connections that it opens. ICMP echo requests are sent by the system's `ping`.

#![warn(missing_docs)]

mod actions;
#[cfg(test)]
mod tests;

use muster_api::{Agent, AgentError, ddl};

/// Builds the agent with every action that its DDL declares.
pub fn build_agent() -> Result<Agent, AgentError> {
    let document = ddl::builtin_agent("nettest").unwrap_or_default();
    Agent::builder(document)?
        .with_action(actions::NettestConnectAction)
        .with_action(actions::NettestDnsAction)
        .with_action(actions::NettestPingAction)
        .build()
}
