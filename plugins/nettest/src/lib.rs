//! `nettest`: what the network looks like from the node: whether a port is open, what a name resolves to, whether a host answers.
//!
//! Nothing is sent over a connection that was opened. ICMP is the system's own `ping`'s business.

#![warn(missing_docs)]

mod actions;
#[cfg(test)]
mod tests;

use muster_api::{Agent, AgentError, ddl};

/// The agent, with every action that its DDL declares.
pub fn build_agent() -> Result<Agent, AgentError> {
    let document = ddl::builtin_agent("nettest").unwrap_or_default();
    Agent::builder(document)?
        .with_action(actions::NettestConnectAction)
        .with_action(actions::NettestDnsAction)
        .with_action(actions::NettestPingAction)
        .build()
}
