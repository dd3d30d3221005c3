//! The permit of a run: its parameters, and a handle that may be empty.
//!
//! Every run has a permit, so that it counts in its pool. A run without a limit of its own waits for the limits of others, but it is not stopped when
//! the broker cannot be reached, and it runs without a permit where none can be stored.

use std::num::NonZeroU32;
use std::time::Duration;

use muster_api::base::error_chain;
use muster_api::wire::identity::SubjectName;

use crate::permits::{Permit, PermitClient, PermitError, PermitRequest};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

#[derive(Debug, Clone)]
pub(crate) struct PermitParameters {
    pub(crate) pool: SubjectName,
    /// `None`: the run imposes no limit.
    pub(crate) limit: Option<NonZeroU32>,
    pub(crate) priority: i8,
    /// The rollout that the run belongs to.
    pub(crate) rollout: Option<Uuid>,
    pub(crate) timeout: Duration,
}

impl PermitParameters {
    /// Parameters of a run that imposes no limit, and does not wait.
    pub(crate) fn without_limit(pool: SubjectName) -> Self {
        Self { pool, limit: None, priority: 0, rollout: None, timeout: Duration::ZERO }
    }

    fn to_request(&self, run: Uuid) -> PermitRequest {
        let (pool, timeout) = (self.pool.clone(), self.timeout);
        let request = match self.limit {
            Some(limit) => PermitRequest::new(pool, limit, run, timeout),
            None => PermitRequest::without_limit(pool, run, timeout),
        };
        PermitRequest { priority: self.priority, rollout: self.rollout, ..request }
    }
}

/// A held permit, or none where none can be stored.
#[derive(Debug, Default)]
pub(crate) struct OptionalPermit(Option<Permit>);

impl OptionalPermit {
    /// Waits for a place in the pool. A run without a limit of its own needs none if the permits cannot be read or written.
    pub(crate) async fn acquire_permit(
        permits: &PermitClient,
        parameters: &PermitParameters,
        run: Uuid,
        cancel: &CancellationToken,
    ) -> Result<Self, PermitError> {
        let is_optional = parameters.limit.is_none();
        if is_optional && !permits.is_connected() {
            return Ok(Self(None));
        }
        match permits.acquire_permit(parameters.to_request(run), cancel).await {
            Ok(permit) => Ok(Self(Some(permit))),
            Err(error) if is_optional && error.is_store_failure() => {
                let error = error_chain(&error);
                tracing::warn!(%error, %run, pool = %parameters.pool, "the run is not counted in its pool");
                Ok(Self(None))
            }
            Err(error) => Err(error),
        }
    }

    /// Takes a place for a run that is already in progress. Without a permit store the run is not counted.
    pub(crate) async fn occupy_permit(
        permits: &PermitClient,
        parameters: &PermitParameters,
        run: Uuid,
    ) -> Self {
        Self(permits.occupy_permit(&parameters.to_request(run)).await.ok())
    }

    /// Maximum number of runs of the pool while this permit was held, as far as the node knows.
    pub(crate) fn highest_count(&self) -> Option<u64> {
        let highest = self.0.as_ref().map(Permit::highest_count)?;
        u64::try_from(highest).ok()
    }

    pub(crate) fn fence(&self) -> Option<u64> {
        self.0.as_ref().map(Permit::fence)
    }

    /// Returns when the permit is lost; never returns without a permit.
    pub(crate) async fn until_lost(&self) {
        match &self.0 {
            Some(permit) => permit.lost_token().cancelled().await,
            None => std::future::pending().await,
        }
    }

    pub(crate) async fn release(self) {
        if let Some(permit) = self.0 {
            permit.release().await;
        }
    }
}
