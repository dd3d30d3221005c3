//! Waits for a place in a pool: writes a wait entry, watches the pool, and claims a place when it is this node's turn.
//!
//! Nothing here gives up while the bucket is not available, or when its stream is deleted and created again: the caller has the
//! deadline.

use std::time::Duration;

use muster_api::base::unix_millis_now;
use muster_api::wire::Millis;
use muster_bus::{BucketError, BucketWatch, ReconnectBackoff};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::permits::permit::AcquiredClaim;
use crate::permits::permit_request::DEFAULT_LEASE;
use crate::permits::registration::{PermitRegistration, PlaceTerms};
use crate::permits::wait_progress::WaitProgress;
use crate::permits::watched_pool::{MAX_POLL_INTERVAL, WatchedPool};

/// Time in addition to a third of the lease, in which each holder renews its claim in a stream that was created again.
const RENEWAL_GRACE: Duration = Duration::from_secs(5);

pub(crate) struct AcquireAttempt<'a> {
    pub(crate) registration: &'a PermitRegistration,
    pub(crate) terms: PlaceTerms,
    pub(crate) progress: &'a WaitProgress,
    /// How far the broker's clock is ahead, in milliseconds.
    pub(crate) clock_offset: &'a watch::Sender<i64>,
}

/// Why waiting in one stream ended without a place.
#[derive(Debug)]
enum WaitEnd {
    /// The stream of the bucket was deleted and created again: revisions start at 1, and all entries are lost.
    StreamRecreated,
    Failed(BucketError),
}

impl From<BucketError> for WaitEnd {
    fn from(error: BucketError) -> Self {
        Self::Failed(error)
    }
}

impl AcquireAttempt<'_> {
    pub(crate) async fn wait_for_permit(&self) -> Result<AcquiredClaim, BucketError> {
        let mut not_before = Instant::now();
        loop {
            match self.wait_in_stream(not_before).await {
                Ok(acquired) => return Ok(acquired),
                Err(WaitEnd::Failed(error)) => return Err(error),
                Err(WaitEnd::StreamRecreated) => {}
            }
            tracing::warn!(pool = %self.registration.pool, "the stream of permits was created again; waiting in it");
            // Holders whose claims are lost write them again at their next heartbeat.
            not_before = Instant::now() + self.registration.lease / 3 + RENEWAL_GRACE;
        }
    }

    /// Waits for a place, but claims none before this time, until the stream is created again.
    async fn wait_in_stream(&self, not_before: Instant) -> Result<AcquiredClaim, WaitEnd> {
        let registration = self.registration;
        let mut watch = registration.bucket.watch(">").await?;
        let mut state = WatchedPool::new(registration.pool.clone());
        let known_revision = watch.complete_revision();
        let written_from = unix_millis_now();
        let own_revision = registration.put_wait(self.terms).await?;
        let written_until = unix_millis_now();
        let mut renewed_at = Instant::now();
        // Decide only after the watch has delivered our own entry: then all earlier entries are applied too.
        require_later(own_revision, known_revision)?;
        self.read_until(own_revision, &mut state, &mut watch).await?;
        if let Some(stored_at) =
            state.pool.wait_time(&registration.node, registration.slot.number())
        {
            let offset = clock_offset(stored_at, written_from, written_until);
            self.clock_offset.send_replace(offset);
        }
        state.fix_clock();
        // Also with a longer lease a wait has contact with the bucket at least this often.
        let interval = registration.lease.min(DEFAULT_LEASE) / 3;
        let (mut evaluate_at, mut wait_interval) = (Instant::now(), interval);
        let mut spread = random_share();
        loop {
            state.apply_received_entries(&mut watch);
            if state.take_change() || Instant::now() >= evaluate_at {
                self.progress.record_claims(state.pool.live_claims(state.broker_time()));
                if Instant::now() >= not_before
                    && state.pool.is_turn_of(&registration.node, state.broker_time())
                {
                    if let Some(acquired) = self.try_claim(&mut state, &mut watch).await? {
                        return Ok(AcquiredClaim { watched: Some((state, watch)), ..acquired });
                    }
                    renewed_at = Instant::now();
                }
                evaluate_at = Instant::now() + state.poll_delay();
                wait_interval = self.wait_interval(&state, interval, spread);
            }
            let is_quiet = state.silence().min(renewed_at.elapsed()) >= interval;
            if renewed_at.elapsed() >= wait_interval || is_quiet || watch.has_stale_revisions() {
                renewed_at = Instant::now();
                self.renew_entries(&watch).await?;
                spread = random_share();
                wait_interval = self.wait_interval(&state, interval, spread);
            }
            let poll_timeout = evaluate_at.saturating_duration_since(Instant::now()).min(interval);
            if let Ok(applied) = timeout(poll_timeout, state.require_next_entry(&mut watch)).await {
                applied?;
                self.progress.record_contact();
            }
        }
    }

    /// Time from the last heartbeat to the next one. Where many wait, it is long, and each takes another share of it, so that they do not send theirs at the same
    /// time.
    fn wait_interval(&self, state: &WatchedPool, usual: Duration, share: f64) -> Duration {
        let (node, at) = (&self.registration.node, state.broker_time());
        state.pool.heartbeat_interval(node, usual, at).mul_f64(share).max(usual)
    }

    /// Writes a claim and checks by its rank among the claims whether it holds a place; deletes a claim that came too late.
    async fn try_claim(
        &self,
        state: &mut WatchedPool,
        watch: &mut BucketWatch,
    ) -> Result<Option<AcquiredClaim>, WaitEnd> {
        let registration = self.registration;
        let mut renewed_at = Instant::now();
        let known_revision = watch.complete_revision();
        let fence = registration.put_claim(self.terms, false).await?;
        require_later(fence, known_revision)?;
        let mut last_revision = fence;
        // The write may have taken long. The lease counts from before the last accepted write began.
        while renewed_at.elapsed() >= registration.lease / 3 {
            renewed_at = Instant::now();
            last_revision = registration.send_heartbeat().await?;
            require_later(last_revision, fence)?;
        }
        self.read_until(last_revision, state, watch).await?;
        let held = state.pool.held_fence(&registration.node, state.broker_time());
        if held == Some(fence) {
            // The wait entry is removed during the run: a member with a claim does not count as waiting.
            return Ok(Some(AcquiredClaim { fence, renewed_at, watched: None }));
        }
        // The wait entry stays, so that a claim that came too late keeps its rank among the waiters.
        registration.delete_claim().await?;
        Ok(None)
    }

    /// Applies entries until this own revision is included.
    async fn read_until(
        &self,
        revision: u64,
        state: &mut WatchedPool,
        watch: &mut BucketWatch,
    ) -> Result<(), WaitEnd> {
        while state.pool.revision() < revision || !watch.is_current() {
            match timeout(MAX_POLL_INTERVAL, state.require_next_entry(watch)).await {
                Ok(applied) => applied?,
                // The revision may belong to a stream that is gone.
                Err(_) => self.renew_entries(watch).await?,
            }
        }
        self.progress.record_contact();
        Ok(())
    }

    /// Sends a heartbeat, and compares its revision with those that were read.
    async fn renew_entries(&self, watch: &BucketWatch) -> Result<(), WaitEnd> {
        let known_revision = watch.complete_revision();
        let revision = self.registration.send_heartbeat().await?;
        self.progress.record_contact();
        require_later(revision, known_revision)
    }
}

/// A random number between a half and one.
fn random_share() -> f64 {
    0.5 + ReconnectBackoff::random_within(Duration::from_millis(500)).as_secs_f64()
}

/// Checks the revision of a write against one that was known before it: a stream that was created again starts at revision 1.
fn require_later(written: u64, known: u64) -> Result<(), WaitEnd> {
    if written > known { Ok(()) } else { Err(WaitEnd::StreamRecreated) }
}

/// How far the broker's clock is ahead, if it stored an entry at this time which was written in this period of the node's time.
pub(crate) fn clock_offset(stored_at: Millis, from: Millis, until: Millis) -> i64 {
    let difference = |later: Millis, earlier: Millis| {
        i64::try_from(later.saturating_sub(earlier)).unwrap_or(i64::MAX)
    };
    difference(stored_at, until) - difference(from, stored_at)
}
