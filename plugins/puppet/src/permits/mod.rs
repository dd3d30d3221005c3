//! Run permits: limit how many nodes of a fleet run the same operation at once, without a central coordinator.
//!
//! A *pool* is stored in one bucket of the broker. Each node writes only keys that end in its own name. A node that wants to run writes a *wait*
//! entry; when it is its turn it writes a *claim*. The broker assigns a total order of revisions to all claims. **The oldest claims, up to the limit,
//! hold the pool**, where the limit is the smallest of the claim itself and of all older ones. Each node evaluates this rule by itself, and
//! concurrent claims give the same result on every node. The claim's revision is the permit's *fence*.
//!
//! Every run has a claim, also a run without a limit of its own: it imposes none, and keeps those of the others.
//!
//! A claim stays valid as long as its node sends heartbeats, one every third of the *lease*: other nodes count the time since they received the last
//! one. A waiting node behind the first 64 sends fewer, because each of them receives those of all others; it counts as waiting until it comes to the head.
//! A node that cannot send them must stop its run before the lease ends, because the other nodes do not wait longer; see [`Permit::lost_token`].
//!
//! While no server serves the bucket, as during an election, waits and renewals go on: only their own deadlines end them.
//!
//! [`pool`] implements the rule as a pure fold of the bucket's entries. [`PermitClient`] waits and writes. The agent `permit` lists pools and
//! releases permits.

mod acquisition;
mod actions;
mod client;
mod permit;
mod permit_keeper;
mod permit_request;
pub mod pool;
mod record;
mod registration;
mod slots;
#[cfg(test)]
mod tests;
mod wait_progress;
mod watched_pool;

use std::future::ready;

use muster_api::{Agent, AgentError, DaemonContext, NoOptions, NodePlugin, PluginResult};
use muster_contract::permit::{PermitAgent, PermitList, PermitRelease};

use actions::release_permits;

pub use client::{PermitClient, PermitError};
pub use permit::Permit;
pub use permit_request::{DEFAULT_LEASE, PermitLoss, PermitRequest};
pub use record::{ClaimRecord, PermitKeyKind, WaitRecord};

pub fn build_agent(client: &PermitClient) -> Result<Agent, AgentError> {
    Agent::builder_for::<PermitAgent>()?
        .action(PermitList, client, actions::list_pools)
        .action(PermitRelease, client, |client, _, input| ready(release_permits(&client, &input)))
        .build()
}

#[derive(Debug, Clone)]
pub struct PermitPlugin(PermitClient);

impl NodePlugin for PermitPlugin {
    const NAME: &'static str = "permit";
    type Options = NoOptions;
    type Shared = PermitClient;

    fn configure(_: NoOptions, _: &DaemonContext, client: PermitClient) -> PluginResult<Self> {
        Ok(Self(client))
    }

    fn build_agent(&self) -> Result<Agent, AgentError> {
        build_agent(&self.0)
    }
}
