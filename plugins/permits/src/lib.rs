//! Run permits: how many nodes of a fleet may do the same thing at once, decided by the nodes themselves.
//!
//! A *pool* lives in one bucket of the broker, in which each node writes only below its own name. Whoever wants to run writes that it
//! waits; when it is its turn it writes a *claim*. The broker puts all claims in one order, and **the oldest claims, as many as the limit,
//! hold the pool**: a rule that each node can apply for itself, and that two nodes who claim in the same moment cannot read
//! differently. The claim's revision is the permit's *fence*.
//!
//! A claim lives as long as its node gives signs of life: one every third of the *lease*, by the broker's clock. Who cannot give them
//! must stop before the lease is over, because the others will not wait longer; see [`Permit::lost_token`].
//!
//! [`pool`] is the rule, a pure fold of the bucket's entries; [`PermitClient`] does the waiting and writing; the agent `permit` shows a pool
//! and gives permits back.

#![warn(missing_docs)]

mod actions;
mod client;
mod permit;
pub mod pool;
mod record;
mod slots;
#[cfg(test)]
mod tests;

use std::time::Duration;

use muster_api::{Agent, AgentError, ddl};

pub use client::{PermitClient, PermitError, PermitRequest};
pub use permit::Permit;
pub use record::{ClaimRecord, PermitKeyKind, WaitRecord};

/// How long a permit lives without a sign of life, unless it is asked for otherwise.
pub const DEFAULT_LEASE: Duration = Duration::from_mins(1);

/// The agent `permit`.
pub fn build_agent(desk: PermitClient) -> Result<Agent, AgentError> {
    Agent::builder(ddl::builtin_agent("permit").unwrap_or_default())?
        .with_action(actions::PermitListAction(desk.clone()))
        .with_action(actions::PermitReleaseAction(desk))
        .build()
}
