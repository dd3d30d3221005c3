//! A held permit: kept in the background, released at the end, and lost when heartbeats do not reach the broker.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use muster_bus::BucketWatch;
use tokio::sync::OwnedMutexGuard;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::permits::permit_keeper::{PermitKeeper, PermitRenewal};
use crate::permits::registration::{PermitRegistration, PlaceTerms};
use crate::permits::watched_pool::WatchedPool;

/// How long a release waits for the broker's confirmation; it is confirmed within milliseconds, unless a leader is elected.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);

/// A place in a pool. Release it with [`Permit::release`]; on drop it is released in the background.
#[derive(Debug)]
pub struct Permit {
    fence: u64,
    registration: Option<PermitRegistration>,
    lost: CancellationToken,
    keeper: JoinHandle<()>,
    /// Maximum number of places that were held at once while this permit was held.
    highest: Arc<AtomicUsize>,
    /// Serialises this node's runs of the same pool.
    pool_guard: Option<OwnedMutexGuard<()>>,
}

pub(crate) struct AcquiredClaim {
    /// The revision of the claim.
    pub(crate) fence: u64,
    /// When the last heartbeat that the broker accepted was sent.
    pub(crate) renewed_at: Instant,
    /// The pool, and the watch that delivers its changes.
    pub(crate) watched: Option<(WatchedPool, BucketWatch)>,
}

impl Permit {
    /// Wraps a confirmed place, and starts to keep it.
    pub(crate) fn start_keeping(
        registration: PermitRegistration,
        acquired: AcquiredClaim,
        terms: PlaceTerms,
        pool_guard: OwnedMutexGuard<()>,
        renewal: PermitRenewal,
    ) -> Self {
        let highest = Arc::new(AtomicUsize::new(1));
        let (fence, lost) = (acquired.fence, renewal.lost.clone());
        let counter = Arc::clone(&highest);
        let keeper = PermitKeeper::new(registration.clone(), acquired, terms, renewal, counter);
        Self {
            fence,
            lost,
            keeper: tokio::spawn(keeper.keep_permit()),
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

    /// Releases the place, and returns when the broker has confirmed it, or after `RELEASE_TIMEOUT`; the release then goes on in the
    /// background, until the place has expired with its lease.
    pub async fn release(mut self) {
        if let Some(removal) = self.start_release() {
            // The task does not panic, and nothing aborts it.
            let _ = tokio::time::timeout(RELEASE_TIMEOUT, removal).await;
        }
    }

    /// Ends the renewal, and removes the entries in a task. The node's next run of the pool begins after it.
    fn start_release(&mut self) -> Option<JoinHandle<()>> {
        self.keeper.abort();
        let pool_guard = self.pool_guard.take();
        let registration = self.registration.take()?;
        let runtime = tokio::runtime::Handle::try_current().ok()?;
        Some(runtime.spawn(async move {
            registration.remove_entries().await;
            drop(pool_guard);
        }))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        drop(self.start_release());
    }
}
