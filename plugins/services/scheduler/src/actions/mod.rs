//! The agent `schedule`: adds, changes and shows schedules.

mod change;
mod show;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use muster_api::{ActionError, Agent, AgentError};
use muster_contract::schedule::{
    ScheduleAdd, ScheduleAgent, ScheduleHistory, ScheduleList, SchedulePause, ScheduleRebalance,
    ScheduleRemove, ScheduleResume, ScheduleShow,
};
use muster_wire::identity::SubjectName;
use serde::Deserialize;

use crate::error::SchedulerError;
use crate::handle::SchedulerHandle;
use crate::health::HealthOptions;

/// Default of `lease_seconds`: an instance that was killed is replaced within 20 s.
const DEFAULT_LEASE_SECONDS: u64 = 12;
const MIN_LEASE_SECONDS: u64 = 2;

/// The section `[plugins.schedule]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SchedulerOptions {
    /// Whether this host runs an instance.
    pub enabled: bool,
    /// Credentials of a user with the role service.
    pub credentials: PathBuf,
    /// Another instance takes over when the leader has not renewed its lease for this time, in seconds; 12 if absent, at least 2.
    pub lease_seconds: Option<u64>,
    /// Health sources of pools: the limits of their schedules follow them.
    pub health: BTreeMap<SubjectName, HealthOptions>,
}

impl SchedulerOptions {
    /// How long the leader's lease lasts without a renewal.
    pub fn lease(&self) -> Duration {
        let seconds = self.lease_seconds.unwrap_or(DEFAULT_LEASE_SECONDS);
        Duration::from_secs(seconds.max(MIN_LEASE_SECONDS))
    }
}

/// The agent `schedule`. The daemon offers it through the service's own connection, so it is not among the agents of the node.
pub fn build_agent(handle: &SchedulerHandle) -> Result<Agent, AgentError> {
    Agent::builder_for::<ScheduleAgent>()?
        .action(ScheduleAdd, handle, change::add)
        .action(SchedulePause, handle, change::pause)
        .action(ScheduleResume, handle, change::resume)
        .action(ScheduleRemove, handle, change::remove)
        .action(ScheduleRebalance, handle, change::rebalance)
        .action(ScheduleList, handle, |handle, _, _| show::list(handle))
        .blocking_action(ScheduleShow, handle, |handle, _, input| show::show(handle, &input))
        .blocking_action(ScheduleHistory, handle, |handle, _, input| show::history(handle, &input))
        .build()
}

impl From<SchedulerError> for ActionError {
    fn from(error: SchedulerError) -> Self {
        match error {
            SchedulerError::Store(_) | SchedulerError::NotConnected => Self::from_cause(error),
            other => Self::invalid_input(muster_api::base::error_chain(&other)),
        }
    }
}
