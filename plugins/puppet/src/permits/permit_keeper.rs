//! Keeps a permit during its run: sends heartbeats, checks that the claim is still stored, and records how many places are held.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use muster_bus::BucketError;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::permits::permit::AcquiredClaim;
use crate::permits::permit_request::PermitLoss;
use crate::permits::registration::{PermitRegistration, PlaceTerms};
use crate::permits::watched_pool::WatchedPool;

/// Keeps one permit, until its task is aborted or the permit is lost.
pub(crate) struct PermitKeeper {
    registration: PermitRegistration,
    acquired: AcquiredClaim,
    terms: PlaceTerms,
    renewal: PermitRenewal,
    /// Maximum number of places that were held at once.
    highest: Arc<AtomicUsize>,
}

#[derive(Debug, Clone)]
pub(crate) struct PermitRenewal {
    /// Cancelled when the permit is lost or revoked.
    pub(crate) lost: CancellationToken,
    pub(crate) on_loss: PermitLoss,
}

/// The permit is lost: its run must stop.
struct PermitLost;

impl PermitKeeper {
    pub(crate) fn new(
        registration: PermitRegistration,
        acquired: AcquiredClaim,
        terms: PlaceTerms,
        renewal: PermitRenewal,
        highest: Arc<AtomicUsize>,
    ) -> Self {
        Self { registration, acquired, terms, renewal, highest }
    }

    /// Returns when the permit is lost.
    pub(crate) async fn keep_permit(mut self) {
        while self.keep_until_event().await.is_ok() {}
        tracing::error!(pool = %self.registration.pool, run = %self.registration.run, "permit lost: it could not be renewed in time, or its claim was removed");
        self.renewal.lost.cancel();
    }

    /// Processes one heartbeat or one change of the pool.
    async fn keep_until_event(&mut self) -> Result<(), PermitLost> {
        let has_stale_revisions =
            self.acquired.watched.as_ref().is_some_and(|(_, watch)| watch.has_stale_revisions());
        let next_heartbeat = self.acquired.renewed_at + self.registration.lease / 3;
        if has_stale_revisions || Instant::now() >= next_heartbeat {
            return self.renew_claim().await;
        }
        let is_applied = tokio::select! {
            () = sleep_until(next_heartbeat) => return Ok(()),
            applied = self.apply_next_change() => applied.is_ok(),
        };
        if !is_applied {
            // The broker refuses reads, or the connection is closed; heartbeats show whether the permit remains.
            self.acquired.watched = None;
            sleep_until(next_heartbeat).await;
            return Ok(());
        }
        self.check_pool().await
    }

    /// Removes the wait entry, opens the watch if there is none, and applies the next change.
    async fn apply_next_change(&mut self) -> Result<(), BucketError> {
        self.registration.delete_wait().await?;
        if let Some((state, watch)) = &mut self.acquired.watched {
            return state.require_next_entry(watch).await;
        }
        let watch = self.registration.bucket.watch(">").await?;
        self.acquired.watched = Some((WatchedPool::new(self.registration.pool.clone()), watch));
        Ok(())
    }

    /// Records the number of held places, and checks whether the own claim is stored.
    async fn check_pool(&mut self) -> Result<(), PermitLost> {
        let Some((state, watch)) = &self.acquired.watched else { return Ok(()) };
        let PermitRegistration { node, slot, .. } = &self.registration;
        if !watch.is_current() || watch.complete_revision() < self.acquired.fence {
            return Ok(());
        }
        let held = state.pool.held_claims(state.broker_time()).len();
        self.highest.fetch_max(held, Ordering::Relaxed);
        if state.pool.claim_revision(node, slot.number()) == Some(self.acquired.fence) {
            return Ok(());
        }
        // An administrator or another process of this node has removed the claim.
        self.replace_claim(self.renewal.on_loss == PermitLoss::KeepRun).await
    }

    /// Sends a heartbeat until the broker has accepted it. After two thirds of the lease the permit is lost, because the run needs the
    /// last third to stop.
    async fn renew_claim(&mut self) -> Result<(), PermitLost> {
        let third = self.registration.lease / 3;
        let deadline = match self.renewal.on_loss {
            PermitLoss::StopRun => self.acquired.renewed_at + third * 2,
            PermitLoss::KeepRun => Instant::now() + third,
        };
        let started = Instant::now();
        let Ok(Ok(revision)) = timeout_at(deadline, self.registration.send_heartbeat()).await
        else {
            sleep_until(deadline).await;
            return self.tolerate_loss();
        };
        if revision <= self.acquired.fence {
            tracing::warn!(pool = %self.registration.pool, "the stream of permits was created again; claiming the place again");
            return self.replace_claim(true).await;
        }
        self.acquired.renewed_at = started;
        Ok(())
    }

    /// Writes the claim again, so that it counts even if the pool is full; or reports the loss.
    async fn replace_claim(&mut self, is_kept: bool) -> Result<(), PermitLost> {
        if !is_kept {
            return Err(PermitLost);
        }
        let started = Instant::now();
        let deadline = started + self.registration.lease / 3;
        let written = timeout_at(deadline, self.registration.put_claim(self.terms, true)).await;
        let Ok(Ok(fence)) = written else { return self.tolerate_loss() };
        self.acquired = AcquiredClaim { fence, renewed_at: started, watched: None };
        Ok(())
    }

    fn tolerate_loss(&self) -> Result<(), PermitLost> {
        match self.renewal.on_loss {
            PermitLoss::StopRun => Err(PermitLost),
            PermitLoss::KeepRun => Ok(()),
        }
    }
}
