//! A pool as it is received from a watch of the bucket.

use std::time::{Duration, Instant};

use muster_api::wire::Millis;
use muster_api::wire::identity::SubjectName;
use muster_api::wire::stores::PERMITS_BUCKET;
use muster_bus::{BucketEntry, BucketError, BucketWatch};

use crate::permits::pool::{BrokerClock, PermitPool};

/// Longest pause between two evaluations of a pool without changes.
pub(crate) const MAX_POLL_INTERVAL: Duration = Duration::from_secs(5);

/// The pool's state and the broker's time, as received from a watch.
pub(crate) struct WatchedPool {
    pub(crate) pool: PermitPool,
    clock: BrokerClock,
    /// Whether the order of turns may have changed since the last evaluation.
    is_changed: bool,
    /// When the last entry was received.
    received_at: Instant,
}

impl WatchedPool {
    pub(crate) fn new(pool: SubjectName) -> Self {
        Self {
            pool: PermitPool::new(pool),
            clock: BrokerClock::default(),
            is_changed: true,
            received_at: Instant::now(),
        }
    }

    pub(crate) fn broker_time(&self) -> Millis {
        self.clock.time_at(Instant::now()).unwrap_or_default()
    }

    /// Ends the use of the broker's clock, which changes with the leader of the bucket: from now on the pool's time passes as this
    /// node's monotonic clock.
    pub(crate) fn fix_clock(&mut self) {
        self.clock.fix();
        self.pool.limit_ages(self.broker_time());
    }

    /// Returns false when the watch has ended.
    pub(crate) async fn apply_next_entry(
        &mut self,
        watch: &mut BucketWatch,
    ) -> Result<bool, BucketError> {
        let Some(entry) = watch.next().await? else { return Ok(false) };
        self.apply_entry(&entry);
        Ok(true)
    }

    /// Applies all entries that have been received already: when hundreds of nodes wait, one evaluation follows many changes.
    pub(crate) fn apply_received_entries(&mut self, watch: &mut BucketWatch) {
        while let Some(entry) = watch.next_received() {
            self.apply_entry(&entry);
        }
    }

    fn apply_entry(&mut self, entry: &BucketEntry) {
        self.received_at = Instant::now();
        let received = self.clock.observe_entry(entry.created, self.received_at);
        self.is_changed |= self.pool.apply_entry_at(entry, received);
    }

    /// Whether the order of turns may have changed since the last call.
    pub(crate) fn take_change(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }

    /// How long no entry was received.
    pub(crate) fn silence(&self) -> Duration {
        self.received_at.elapsed()
    }

    /// Fails when the watch has ended.
    pub(crate) async fn require_next_entry(
        &mut self,
        watch: &mut BucketWatch,
    ) -> Result<(), BucketError> {
        if self.apply_next_entry(watch).await? {
            return Ok(());
        }
        Err(BucketError::Failed {
            operation: "watch",
            bucket: PERMITS_BUCKET.name.to_owned(),
            problem: "the connection is closed".to_owned(),
        })
    }

    /// Time until the next expiry, at most [`MAX_POLL_INTERVAL`]. Without new entries the pool does not change before that.
    pub(crate) fn poll_delay(&self) -> Duration {
        let now = self.broker_time();
        let end = self.pool.next_expiry(now).unwrap_or(u64::MAX);
        Duration::from_millis(end.saturating_sub(now).saturating_add(1)).min(MAX_POLL_INTERVAL)
    }
}
