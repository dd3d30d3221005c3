//! A held permit: renewed in the background, released at the end, and lost when heartbeats do not reach the broker.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use muster_api::base::duration_millis;
use muster_api::wire::identity::{Identity, SubjectName};
use muster_bus::{Bucket, BucketError, BucketWatch, Bytes};
use serde::Serialize;
use tokio::sync::OwnedMutexGuard;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::permit_request::PermitLoss;
use crate::record::{ClaimRecord, PermitKeyKind};
use crate::slots::AllocatedSlot;
use crate::watched_pool::{MAX_POLL_INTERVAL, WatchedPool};

/// A place in a pool. Release it with [`Permit::release`]; on drop it is released in the background.
#[derive(Debug)]
pub struct Permit {
    fence: u64,
    registration: Option<PermitRegistration>,
    lost: CancellationToken,
    renewal: JoinHandle<()>,
    observation: JoinHandle<()>,
    /// Maximum number of places that were held at once while this permit was held.
    highest: Arc<AtomicUsize>,
    /// Serialises this node's runs of the same pool.
    pool_guard: Option<OwnedMutexGuard<()>>,
}

/// Identifies the entries of one node and run in one pool.
#[derive(Debug, Clone)]
pub(crate) struct PermitRegistration {
    pub(crate) bucket: Bucket,
    pub(crate) pool: SubjectName,
    pub(crate) slot: AllocatedSlot,
    pub(crate) node: Identity,
    pub(crate) run: Uuid,
    pub(crate) lease: Duration,
}

/// A claim that holds a place.
pub(crate) struct AcquiredClaim {
    /// The revision of the claim.
    pub(crate) fence: u64,
    /// When the last heartbeat that the broker accepted was sent.
    pub(crate) renewed_at: Instant,
    /// The pool, and the watch that delivers its changes.
    pub(crate) watched: Option<(WatchedPool, BucketWatch)>,
}

/// How a permit is renewed.
#[derive(Debug, Clone)]
pub(crate) struct PermitRenewal {
    /// Cancelled when the permit is lost or revoked.
    pub(crate) lost: CancellationToken,
    pub(crate) on_loss: PermitLoss,
}

impl Permit {
    /// Wraps a confirmed place; starts its renewal and the observation of the pool.
    pub(crate) fn with_renewal(
        registration: PermitRegistration,
        acquired: AcquiredClaim,
        pool_guard: OwnedMutexGuard<()>,
        renewal: PermitRenewal,
    ) -> Self {
        let AcquiredClaim { fence, renewed_at, watched } = acquired;
        let highest = Arc::new(AtomicUsize::new(1));
        let observation = observe_pool(registration.clone(), watched, Arc::clone(&highest));
        Self {
            fence,
            lost: renewal.lost.clone(),
            renewal: tokio::spawn(renew_until_lost(registration.clone(), renewed_at, renewal)),
            observation: tokio::spawn(observation),
            highest,
            registration: Some(registration),
            pool_guard: Some(pool_guard),
        }
    }

    /// Maximum number of places of the pool that were held at once since this permit was acquired, itself included. Includes runs that were started
    /// outside, by whatever node.
    pub fn highest_count(&self) -> usize {
        self.highest.load(Ordering::Relaxed)
    }

    /// The claim's revision: larger than that of every earlier permit of the pool.
    pub fn fence(&self) -> u64 {
        self.fence
    }

    /// Cancelled before the permit expires. The run must end within the last third of the lease, because another node may start after that.
    pub fn lost_token(&self) -> &CancellationToken {
        &self.lost
    }

    /// Releases the place, and returns when the broker has confirmed it. If the broker cannot be reached, the place expires with the lease.
    pub async fn release(mut self) {
        self.renewal.abort();
        self.observation.abort();
        if let Some(registration) = self.registration.take() {
            registration.remove_entries().await;
        }
        self.pool_guard = None;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.renewal.abort();
        self.observation.abort();
        let pool_guard = self.pool_guard.take();
        if let Some(registration) = self.registration.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move {
                registration.remove_entries().await;
                drop(pool_guard);
            });
        }
    }
}

impl PermitRegistration {
    pub(crate) fn entry_key(&self, kind: PermitKeyKind) -> String {
        kind.entry_key(self.slot.number(), &self.node)
    }

    /// Writes an entry; returns its revision.
    pub(crate) async fn put_entry(
        &self,
        kind: PermitKeyKind,
        record: &impl Serialize,
    ) -> Result<u64, BucketError> {
        // The records consist of numbers and strings, so serialising them cannot fail.
        let value = Bytes::from(serde_json::to_vec(record).unwrap_or_default());
        self.bucket.put(&self.entry_key(kind), value).await
    }

    /// Writes a claim; returns its revision.
    pub(crate) async fn put_claim(
        &self,
        priority: i8,
        limit: u32,
        occupied: bool,
    ) -> Result<u64, BucketError> {
        let claim = ClaimRecord {
            pool: self.pool.clone(),
            run: self.run,
            priority,
            limit,
            lease: duration_millis(self.lease),
            occupied,
        };
        self.put_entry(PermitKeyKind::Claim, &claim).await
    }

    /// Writes a heartbeat; returns whether the broker accepted it.
    pub(crate) async fn send_heartbeat(&self) -> bool {
        let value = Bytes::from(self.run.to_string());
        self.bucket.put(&self.entry_key(PermitKeyKind::Beat), value).await.is_ok()
    }

    /// Deletes all entries of this registration.
    pub(crate) async fn remove_entries(&self) {
        for kind in [PermitKeyKind::Claim, PermitKeyKind::Wait, PermitKeyKind::Beat] {
            if let Err(error) = self.bucket.delete(&self.entry_key(kind)).await {
                tracing::warn!(%error, pool = %self.pool, "cannot release a permit; it expires with its lease");
                return;
            }
        }
    }
}

/// Sends a heartbeat every third of the lease. When the broker no longer accepts them in time, cancels `lost`, or goes on if the run does.
async fn renew_until_lost(
    registration: PermitRegistration,
    mut renewed_at: Instant,
    renewal: PermitRenewal,
) {
    let interval = registration.lease / 3;
    loop {
        tokio::time::sleep(interval).await;
        let sent_at = Instant::now();
        if let Ok(true) = tokio::time::timeout(interval, registration.send_heartbeat()).await {
            renewed_at = sent_at;
        }
        // Cancel after two thirds of the lease: the run has the last third to stop.
        if renewed_at.elapsed() >= interval * 2 && renewal.on_loss == PermitLoss::StopRun {
            tracing::error!(pool = %registration.pool, run = %registration.run, "permit lost: it could not be renewed in time");
            renewal.lost.cancel();
            return;
        }
    }
}

/// Records the maximum number of held places, until it is aborted. Opens the watch again when it ends.
async fn observe_pool(
    registration: PermitRegistration,
    mut watched: Option<(WatchedPool, BucketWatch)>,
    highest: Arc<AtomicUsize>,
) {
    loop {
        while let Some((state, watch)) = &mut watched {
            if watch.is_current() {
                let held = state.pool.held_claims(state.broker_time()).len();
                highest.fetch_max(held, Ordering::Relaxed);
            }
            if !matches!(state.apply_next_entry(watch).await, Ok(true)) {
                tokio::time::sleep(MAX_POLL_INTERVAL).await;
                break;
            }
        }
        let opened = registration.bucket.watch(">").await;
        watched = opened.ok().map(|watch| (WatchedPool::new(registration.pool.clone()), watch));
        if watched.is_none() {
            tokio::time::sleep(MAX_POLL_INTERVAL).await;
        }
    }
}
