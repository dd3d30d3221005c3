//! `release`: the node has the catalog of the release that was promoted to it, and no other.
//!
//! - [`ReleaseFollower`]: finds promotions, fetches what they name, and applies it. `held`: what the node has on disk. `fetch`: reads the broker's buckets.
//! - [`ReleaseTrust`]: what the daemon decides: whose signatures count, and who may promote.
//!
//! The last two catalogs stay on disk with their files, so a node returns to the one before without a broker. By itself the node only reports what it would
//! change, except in the times that the promotion names. One run at a time, of the engine or of Puppet, with the same ledger as all other runs.

mod actions;
mod error;
mod fetch;
mod follow;
mod held;
mod options;
mod parts;
mod puppet_copy;
mod run;
mod state;
mod trust;

use std::sync::Arc;

use muster_api::{Agent, AgentError, DaemonContext, NodePlugin, PluginResult, StateSource};
use muster_contract::release::{
    ReleaseAgent, ReleaseApply, ReleaseHeld, ReleasePlan, ReleasePromote, ReleaseStatus,
};
use muster_puppet::PuppetRunHandle;

use crate::catalog::Options as CatalogOptions;
pub use follow::ReleaseFollower;
pub use options::ReleaseOptions;
use parts::FollowerParts;
pub use parts::ReleaseMachine;
use state::ReleaseStateSource;
pub use trust::ReleaseTrust;

/// Directory of catalogs and promotions, in the daemon's state directory.
const STATE_DIRECTORY: &str = "release";

/// What applies catalogs.
#[derive(Debug, Clone)]
pub struct ReleaseShared {
    /// The options of the engine's runs.
    pub engine: Arc<CatalogOptions>,
    /// Puppet's runs.
    pub puppet: PuppetRunHandle,
}

/// The agent `release`.
#[derive(Debug, Clone)]
pub struct ReleasePlugin {
    follower: ReleaseFollower,
    is_enabled: bool,
}

impl ReleasePlugin {
    /// What follows promotions between requests; `None` if the agent is off.
    pub fn follower(&self) -> Option<ReleaseFollower> {
        self.is_enabled.then(|| self.follower.clone())
    }
}

impl NodePlugin for ReleasePlugin {
    const NAME: &'static str = "release";
    type Options = ReleaseOptions;
    type Shared = ReleaseShared;

    fn configure(
        options: ReleaseOptions,
        daemon: &DaemonContext,
        shared: ReleaseShared,
    ) -> PluginResult<Self> {
        options.check()?;
        let is_enabled = options.enabled;
        let state_changes = daemon.state_changes.clone();
        let state = daemon.state.join(STATE_DIRECTORY);
        let ReleaseShared { engine, puppet } = shared;
        let follower =
            ReleaseFollower::new(FollowerParts { options, engine, puppet, state, state_changes });
        Ok(Self { follower, is_enabled })
    }

    fn build_agent(&self) -> Result<Agent, AgentError> {
        Agent::builder_for::<ReleaseAgent>()?
            .action(ReleasePromote, &self.follower, actions::promote)
            .action(ReleasePlan, &self.follower, actions::plan)
            .action(ReleaseApply, &self.follower, actions::apply)
            .blocking_action(ReleaseStatus, &self.follower, actions::status)
            .blocking_action(ReleaseHeld, &self.follower, actions::held)
            .build()
    }

    fn is_enabled(&self) -> bool {
        self.is_enabled
    }

    fn state_sources(&self) -> Vec<Arc<dyn StateSource>> {
        if !self.is_enabled {
            return Vec::new();
        }
        vec![Arc::new(ReleaseStateSource(self.follower.clone()))]
    }
}
