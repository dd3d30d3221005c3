//! The permit of a run: its parameters, and a handle that may be empty.

use std::num::NonZeroU32;
use std::time::Duration;

use muster_api::wire::identity::SubjectName;
use muster_permits::{DEFAULT_LEASE, Permit, PermitClient, PermitError, PermitRequest};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Permit parameters of a run.
#[derive(Debug, Clone)]
pub(crate) struct PermitParameters {
    pub(crate) pool: SubjectName,
    /// `None`: no permit is acquired.
    pub(crate) limit: Option<NonZeroU32>,
    pub(crate) priority: i8,
    pub(crate) timeout: Duration,
}

/// A held permit, or none if none was needed.
#[derive(Debug, Default)]
pub(crate) struct OptionalPermit(Option<Permit>);

impl OptionalPermit {
    /// Waits for a place in the pool, if a limit is set.
    pub(crate) async fn acquire_permit(
        permits: &PermitClient,
        parameters: &PermitParameters,
        run: Uuid,
        cancel: &CancellationToken,
    ) -> Result<Self, PermitError> {
        let Some(limit) = parameters.limit else {
            return Ok(Self(None));
        };
        let mut request =
            PermitRequest::new(parameters.pool.clone(), limit, run, parameters.timeout);
        request.priority = parameters.priority;
        permits.acquire_permit(request, cancel).await.map(|permit| Self(Some(permit)))
    }

    /// Takes a place for a run that is already in progress. Without a permit store the run is not counted.
    pub(crate) async fn occupy_permit(
        permits: &PermitClient,
        pool: &SubjectName,
        run: Uuid,
    ) -> Self {
        Self(permits.occupy_permit(pool, run, DEFAULT_LEASE).await.ok())
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
