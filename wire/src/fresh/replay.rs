//! The cache of seen requests: prevents that a request runs twice.
//!
//! The cache is bounded: when full, it refuses new requests instead of evicting old ones. One eighth of the capacity is reserved
//! for callers with few entries, so that one caller with many long-lived requests cannot block all others. Entries expire only
//! when both the wall clock and a monotonic clock have passed their end, so a clock change cannot expire an entry early.

use std::cmp::Reverse;
use std::collections::hash_map::Entry::Occupied;
use std::collections::{BinaryHeap, HashMap};

use uuid::Uuid;

use super::journal::SeenRecord;
use crate::Millis;

/// Default capacity in requests; about 13 MB when full.
pub const DEFAULT_CAPACITY: usize = 100_000;

/// Smaller capacities are not shrunk.
const MIN_RETAINED_CAPACITY: usize = 64;

/// After a restart the wall clock may be wrong. Journal entries that expired less than this long ago are restored,
const RESTORE_GRACE_MILLIS: Millis = 90 * 60 * 1000;

/// and kept for this long, in which time synchronization corrects a wrong clock.
const CLOCK_CORRECTION_MILLIS: Millis = 5 * 60 * 1000;

/// One instant on two clocks, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DualClockInstant {
    /// Wall clock time since the epoch; it may be set.
    pub wall: Millis,
    /// Monotonic time since an arbitrary start of this process.
    pub steady: Millis,
}

/// Unexpired requests, by caller key and request id.
#[derive(Debug)]
pub struct SeenCache {
    capacity: usize,
    seen: HashMap<SeenRequestKey, RetentionDeadline>,
    /// Number of entries per caller; callers without entries are absent.
    entry_counts: HashMap<[u8; 32], usize>,
    by_expiry: BinaryHeap<Reverse<(Millis, SeenRequestKey)>>,
}

type SeenRequestKey = ([u8; 32], Uuid);

/// The end of an entry: both instants must have passed.
#[derive(Debug, Clone, Copy)]
struct RetentionDeadline {
    wall: Millis,
    steady: Millis,
}

/// The result of an insertion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InsertionOutcome {
    /// Not seen before; inserted.
    New,
    /// Seen before.
    Seen,
    /// Not seen before, but the cache is full: refuse the request as busy.
    Full {
        /// When an entry expires, in milliseconds from now.
        retry_after_ms: Millis,
    },
}

impl Default for SeenCache {
    fn default() -> Self {
        Self::new(DEFAULT_CAPACITY)
    }
}

impl SeenCache {
    /// Creates a cache of at most this many unexpired requests.
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            seen: HashMap::new(),
            entry_counts: HashMap::new(),
            by_expiry: BinaryHeap::new(),
        }
    }

    /// Restores a cache from journal records. All unexpired records are restored, even beyond the capacity. Recently expired records
    /// are kept for some minutes, because the clock may be wrong at boot.
    pub fn restore(
        records: impl IntoIterator<Item = SeenRecord>,
        capacity: usize,
        now: DualClockInstant,
    ) -> Self {
        let mut cache = Self::new(capacity);
        for record in records {
            let SeenRecord { caller, request, expires } = record;
            let deadline = if expires >= now.wall {
                RetentionDeadline::from_expiry(expires, now)
            } else if expires.saturating_add(RESTORE_GRACE_MILLIS) >= now.wall {
                let steady = now.steady.saturating_add(CLOCK_CORRECTION_MILLIS);
                RetentionDeadline { wall: expires, steady }
            } else {
                continue;
            };
            cache.remember_request((caller, request), deadline);
        }
        cache
    }

    /// Inserts a request of the caller with this key. It is kept up to and including `expires` of the wall clock (see
    /// [`super::remember_until`]), and at least for the same duration on the monotonic clock.
    pub fn insert(
        &mut self,
        caller: &[u8; 32],
        request: Uuid,
        expires: Millis,
        now: DualClockInstant,
    ) -> InsertionOutcome {
        self.remove_expired(now);
        let entry = (*caller, request);
        if self.seen.contains_key(&entry) {
            return InsertionOutcome::Seen;
        }
        if self.seen.len() >= self.capacity_for(caller) {
            let next = self.by_expiry.peek().map_or(now.wall, |Reverse((expires, _))| *expires);
            let retry_after_ms = next.saturating_sub(now.wall).saturating_add(1);
            return InsertionOutcome::Full { retry_after_ms };
        }
        self.remember_request(entry, RetentionDeadline::from_expiry(expires, now));
        InsertionOutcome::New
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.seen.len()
    }

    /// Whether the cache is empty.
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    /// All entries, unordered: for rewriting the journal.
    pub fn records(&self) -> impl Iterator<Item = SeenRecord> + '_ {
        self.seen.iter().map(|(&(caller, request), deadline)| SeenRecord {
            caller,
            request,
            expires: deadline.wall,
        })
    }

    /// The capacity limit for this caller: the whole capacity for callers with few entries, else the capacity without the reserve.
    fn capacity_for(&self, caller: &[u8; 32]) -> usize {
        /// The reserve is this fraction of the capacity.
        const RESERVED_CAPACITY_DIVISOR: usize = 8;
        /// Callers below this fraction of the capacity may use the reserve.
        const SMALL_SHARE_DIVISOR: usize = 64;
        let count = self.entry_counts.get(caller).copied().unwrap_or_default();
        if count < (self.capacity / SMALL_SHARE_DIVISOR).max(1) {
            return self.capacity;
        }
        self.capacity - self.capacity / RESERVED_CAPACITY_DIVISOR
    }

    fn remember_request(&mut self, entry: SeenRequestKey, deadline: RetentionDeadline) {
        let existing = self.seen.get(&entry).copied();
        if existing.is_none_or(|existing| deadline.wall > existing.wall) {
            self.seen.insert(entry, deadline);
            self.by_expiry.push(Reverse((deadline.wall, entry)));
        }
        if existing.is_none() {
            *self.entry_counts.entry(entry.0).or_default() += 1;
        }
    }

    /// Removes expired entries, as every [`Self::insert`] does, and releases memory.
    pub fn remove_expired(&mut self, now: DualClockInstant) {
        self.remove_expired_entries(now);
        let max_capacity = 4 * self.seen.len().max(MIN_RETAINED_CAPACITY);
        if self.seen.capacity() > max_capacity {
            self.seen.shrink_to(max_capacity / 2);
            self.by_expiry.shrink_to(max_capacity / 2);
        }
    }

    fn remove_expired_entries(&mut self, now: DualClockInstant) {
        while let Some(Reverse((expires, entry))) = self.by_expiry.peek()
            && *expires < now.wall
        {
            // A journal may contain the entry twice; the later end applies.
            if let Some(deadline) = self.seen.get(entry)
                && deadline.wall <= *expires
            {
                if deadline.steady >= now.steady {
                    // The wall clock was set forward. Later entries of the heap stay too, which only costs memory.
                    return;
                }
                self.seen.remove(entry);
                if let Occupied(mut count) = self.entry_counts.entry(entry.0) {
                    *count.get_mut() -= 1;
                    if *count.get() == 0 {
                        count.remove();
                    }
                }
            }
            self.by_expiry.pop();
        }
    }
}

impl RetentionDeadline {
    /// Ends after this instant of the wall clock, and after the same duration on the monotonic clock.
    fn from_expiry(wall: Millis, now: DualClockInstant) -> Self {
        let left = wall.saturating_sub(now.wall);
        Self { wall, steady: now.steady.saturating_add(left) }
    }
}

#[cfg(test)]
mod tests {
    use super::{DualClockInstant, SeenCache};
    use uuid::Uuid;

    #[test]
    fn memory_is_released_after_a_flood() {
        let mut cache = SeenCache::default();
        let at = |ms| DualClockInstant { wall: ms, steady: ms };
        for _ in 0..50_000 {
            cache.insert(&[1; 32], Uuid::now_v7(), 1000, at(0));
        }
        assert!(cache.seen.capacity() >= 50_000);
        cache.remove_expired(at(1000));
        assert_eq!(cache.len(), 50_000);
        cache.remove_expired(at(1001));
        assert!(cache.is_empty() && cache.entry_counts.is_empty());
        assert!(cache.seen.capacity() < 2000 && cache.by_expiry.capacity() < 2000);
    }
}
