//! What a follower gets from the daemon, and the machine that it works on.

use std::path::PathBuf;
use std::sync::Arc;

use muster_api::system::System;
use muster_api::{NodeHandle, StateChanges};
use muster_puppet::PuppetRunHandle;
use muster_wire::history::RunCause;

use super::options::ReleaseOptions;
use crate::catalog::Options as CatalogOptions;

/// What the follower is made of.
#[derive(Debug)]
pub(super) struct FollowerParts {
    pub(super) options: ReleaseOptions,
    pub(super) engine: Arc<CatalogOptions>,
    pub(super) puppet: PuppetRunHandle,
    pub(super) state: PathBuf,
    pub(super) state_changes: StateChanges,
}

/// The machine, and the node that it is.
#[derive(Debug, Clone)]
pub struct ReleaseMachine {
    /// The machine.
    pub system: Arc<dyn System>,
    /// The node.
    pub node: Arc<dyn NodeHandle>,
    /// Who asks for runs; a promotion names the user of others.
    pub cause: RunCause,
}
