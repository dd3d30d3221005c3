//! Parameters of one permit acquisition. Acquires nothing.

use std::num::NonZeroU32;
use std::time::Duration;

use muster_api::wire::identity::SubjectName;
use uuid::Uuid;

/// Default time that a permit stays valid without a heartbeat.
pub const DEFAULT_LEASE: Duration = Duration::from_mins(1);

#[derive(Debug, Clone)]
pub struct PermitRequest {
    pub pool: SubjectName,
    /// How many nodes may hold the pool at once, this node included. [`NonZeroU32::MAX`]: the run imposes no limit, and waits for those of others.
    pub limit: NonZeroU32,
    /// Higher goes first; 0 is the default.
    pub priority: i8,
    pub run: Uuid,
    /// The rollout that the run belongs to: its waiting runs are served in the order of their ids.
    pub rollout: Option<Uuid>,
    /// Maximum time to wait for a place.
    pub timeout: Duration,
    /// How long the permit stays valid without a heartbeat; normally [`DEFAULT_LEASE`].
    pub lease: Duration,
    /// What happens when the permit cannot be renewed in time.
    pub on_loss: PermitLoss,
}

/// What happens when the broker does not accept the heartbeats of a permit in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PermitLoss {
    /// The permit is lost: its run must stop. See [`crate::permits::Permit::lost_token`].
    StopRun,
    /// The run goes on, and its claim is renewed as soon as the broker can be reached again. For runs that impose no limit.
    KeepRun,
}

impl PermitRequest {
    /// Request with priority 0 and the default lease. Its run stops when the permit is lost.
    pub fn new(pool: SubjectName, limit: NonZeroU32, run: Uuid, timeout: Duration) -> Self {
        let (lease, on_loss) = (DEFAULT_LEASE, PermitLoss::StopRun);
        Self { pool, limit, priority: 0, run, rollout: None, timeout, lease, on_loss }
    }

    /// Request of a run without a limit of its own, which waits for the limits of others. Its run goes on when the permit cannot be renewed.
    pub fn without_limit(pool: SubjectName, run: Uuid, timeout: Duration) -> Self {
        let request = Self::new(pool, NonZeroU32::MAX, run, timeout);
        Self { on_loss: PermitLoss::KeepRun, ..request }
    }
}
