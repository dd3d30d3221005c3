//! `nettest`: tests the network from the node: TCP connections, name resolution and echo replies.
//!
//! Sends no data over the connections that it opens. ICMP echo requests are sent by the system's `ping`.

mod connect;
mod dns;
mod ping;
#[cfg(test)]
mod tests;

use std::time::Duration;

use muster_api::{Agent, AgentError, CallContext, NoState, StatelessPlugin};
use muster_contract::nettest::{NettestAgent, NettestConnect, NettestDns, NettestPing};

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

/// The requested timeout, limited by the remaining time of the call.
fn effective_timeout(cx: &CallContext, seconds: u64) -> Duration {
    Duration::from_secs(seconds).min(cx.time_left())
}

/// Rounds to a useful precision in milliseconds.
fn round_millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1_000_000.0).round() / 1000.0
}
