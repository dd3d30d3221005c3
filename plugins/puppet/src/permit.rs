//! The room that a run has in the fleet: where permits come from, and what it is to hold one.

use std::num::NonZeroU32;
use std::time::Duration;

use muster_api::wire::identity::SubjectName;
use muster_permits::{DEFAULT_LEASE, Permit, PermitClient, PermitError, PermitRequest};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// What a run asks for.
#[derive(Debug, Clone)]
pub(crate) struct PermitParameters {
    pub(crate) pool: SubjectName,
    /// Nothing: no permit is asked for.
    pub(crate) limit: Option<NonZeroU32>,
    pub(crate) priority: i8,
    pub(crate) patience: Duration,
}

/// A place in the pool, or none that was needed.
#[derive(Debug, Default)]
pub(crate) struct OptionalPermit(Option<Permit>);

impl OptionalPermit {
    /// Waits for a place, where one is asked for.
    pub(crate) async fn acquire_permit(
        desk: &PermitClient,
        wanted: &PermitParameters,
        run: Uuid,
        cancel: &CancellationToken,
    ) -> Result<Self, PermitError> {
        let Some(limit) = wanted.limit else {
            return Ok(Self(None));
        };
        let mut ask = PermitRequest::new(wanted.pool.clone(), limit, run, wanted.patience);
        ask.priority = wanted.priority;
        desk.acquire_permit(ask, cancel)
            .await
            .map(|permit| Self(Some(permit)))
    }

    /// Takes a place for a run that goes on already. Where there is no store of permits, nobody counts.
    pub(crate) async fn occupy_permit(desk: &PermitClient, pool: &SubjectName, run: Uuid) -> Self {
        Self(desk.occupy_permit(pool, run, DEFAULT_LEASE).await.ok())
    }

    pub(crate) fn fence(&self) -> Option<u64> {
        self.0.as_ref().map(Permit::fence)
    }

    /// Returns when the permit counts no more; never, where there is none.
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
