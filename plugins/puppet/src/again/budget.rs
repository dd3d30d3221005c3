//! The fleet's budget: the number of runs of this agent that may begin in a minute. A node holds a permit of a pool with that many slots from before its
//! run begins until a minute after.

use std::num::NonZeroU32;
use std::time::Duration;

use muster_api::wire::identity::{NameError, SubjectName};

use crate::permits::{Permit, PermitClient, PermitError, PermitRequest};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// The pool of all nodes.
const POOL: &str = "again";
/// The period of the budget. A permit is held for this time after the run has begun.
pub const BUDGET_PERIOD: Duration = Duration::from_mins(1);
/// Time limit of one wait for a permit; it is repeated.
const WAIT_TIMEOUT: Duration = Duration::from_hours(1);

#[derive(Debug, Clone)]
pub struct FleetBudget {
    permits: PermitClient,
    pool: SubjectName,
    /// `None`: no limit.
    limit: Option<NonZeroU32>,
}

/// A permit of the budget; none is needed without a limit.
#[derive(Debug, Default)]
pub struct BudgetPermit {
    permit: Option<Permit>,
    period: Duration,
}

impl FleetBudget {
    /// A budget of `per_minute` runs; 0: no limit.
    pub fn new(permits: PermitClient, per_minute: u32) -> Result<Self, NameError> {
        Ok(Self { permits, pool: SubjectName::parse(POOL)?, limit: NonZeroU32::new(per_minute) })
    }

    pub async fn acquire(
        &self,
        run: Uuid,
        cancel: &CancellationToken,
    ) -> Result<BudgetPermit, PermitError> {
        let Some(limit) = self.limit else { return Ok(BudgetPermit::default()) };
        let request = PermitRequest::new(self.pool.clone(), limit, run, WAIT_TIMEOUT);
        let permit = self.permits.acquire_permit(request, cancel).await?;
        Ok(BudgetPermit { permit: Some(permit), period: BUDGET_PERIOD })
    }

    /// Takes the permit of a run that an earlier daemon began `age` ago, for the rest of the period.
    pub async fn occupy(&self, run: Uuid, age: Duration) {
        let rest = BUDGET_PERIOD.saturating_sub(age);
        let (Some(limit), false) = (self.limit, rest.is_zero()) else { return };
        let request = PermitRequest::new(self.pool.clone(), limit, run, rest);
        match self.permits.occupy_permit(&request).await {
            Ok(permit) => BudgetPermit { permit: Some(permit), period: rest }.release_later(),
            Err(error) => tracing::debug!(%error, "the last run is not counted in the budget"),
        }
    }
}

impl BudgetPermit {
    /// Releases the permit a period after now.
    pub fn release_later(self) {
        let Some(permit) = self.permit else { return };
        tokio::spawn(async move {
            tokio::time::sleep(self.period).await;
            permit.release().await;
        });
    }

    /// Releases the permit now: no run has begun.
    pub async fn release(self) {
        if let Some(permit) = self.permit {
            permit.release().await;
        }
    }
}
