//! Which requests were seen already, so that none runs twice.
//!
//! Bounded, and honest about it: a full cache refuses the new rather than forgetting the old. The last of the
//! room is for callers who have taken little of it, so that one who asks without end, with long lives, does not make the node deaf to
//! everybody else. Nothing is forgotten because somebody set the clock: a request must be over by the wall clock, and its time must
//! also have gone by on a clock that nobody can set.

use std::cmp::Reverse;
use std::collections::hash_map::Entry::Occupied;
use std::collections::{BinaryHeap, HashMap};

use uuid::Uuid;

use super::journal::SeenRecord;
use crate::Millis;

/// How many requests are remembered unless told otherwise; about 13 MB when full.
pub const DEFAULT_CAPACITY: usize = 100_000;

/// Room for so many is not worth giving back.
const MIN_RETAINED_CAPACITY: usize = 256;

/// A restart does not know for how long the clock has been right: what was over for less than this is remembered once more,
const RESTORE_GRACE_MILLIS: Millis = 90 * 60 * 1000;

/// and for so long, in which a clock that is wrong at the start is put right.
const CLOCK_CORRECTION_MILLIS: Millis = 5 * 60 * 1000;

/// One instant by two clocks, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DualClockInstant {
    /// The time of day, since the epoch; it may be set.
    pub wall: Millis,
    /// Since any beginning of this process; it only goes forward.
    pub steady: Millis,
}

/// The requests that are still alive, by their caller's key and their id.
#[derive(Debug)]
pub struct SeenCache {
    capacity: usize,
    seen: HashMap<SeenRequestKey, RetentionDeadline>,
    /// How many of them each caller has; callers without any are not in it.
    held: HashMap<[u8; 32], usize>,
    by_expiry: BinaryHeap<Reverse<(Millis, SeenRequestKey)>>,
}

type SeenRequestKey = ([u8; 32], Uuid);

/// How long a request is remembered: until both have gone by.
#[derive(Debug, Clone, Copy)]
struct RetentionDeadline {
    wall: Millis,
    steady: Millis,
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InsertionOutcome {
    /// Never seen; it is remembered now.
    Fresh,
    /// Seen before.
    Seen,
    /// Never seen, but there is no room to remember it: refuse it as busy.
    Full {
        /// When room will be made, in milliseconds from now.
        retry_after_ms: Millis,
    },
}

impl Default for SeenCache {
    fn default() -> Self {
        Self::new(DEFAULT_CAPACITY)
    }
}

impl SeenCache {
    /// A cache of at most this many live requests.
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            seen: HashMap::new(),
            held: HashMap::new(),
            by_expiry: BinaryHeap::new(),
        }
    }

    /// A cache that remembers what a journal says. All of it that is alive, even beyond the capacity; and for some minutes what was over
    /// a short while ago, because the clock may be wrong at a machine's start.
    pub fn restore(
        records: impl IntoIterator<Item = SeenRecord>,
        capacity: usize,
        now: DualClockInstant,
    ) -> Self {
        let mut cache = Self::new(capacity);
        for record in records {
            let SeenRecord {
                caller,
                request,
                expires,
            } = record;
            if expires >= now.wall {
                cache.remember_request(
                    (caller, request),
                    RetentionDeadline::from_expiry(expires, now),
                );
            } else if expires.saturating_add(RESTORE_GRACE_MILLIS) >= now.wall {
                let life = RetentionDeadline {
                    wall: expires,
                    steady: now.steady.saturating_add(CLOCK_CORRECTION_MILLIS),
                };
                cache.remember_request((caller, request), life);
            }
        }
        cache
    }

    /// Notes a request of the caller with this key, to be remembered up to and including `expires` of the wall clock
    /// (see [`super::remember_until`]), and at least for as long as that is from now.
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
            let next = self
                .by_expiry
                .peek()
                .map_or(now.wall, |Reverse((expires, _))| *expires);
            let retry_after_ms = next.saturating_sub(now.wall).saturating_add(1);
            return InsertionOutcome::Full { retry_after_ms };
        }
        self.remember_request(entry, RetentionDeadline::from_expiry(expires, now));
        InsertionOutcome::Fresh
    }

    /// How many requests are remembered.
    pub fn len(&self) -> usize {
        self.seen.len()
    }

    /// Whether none is remembered.
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    /// What is remembered, in no particular order: for writing the journal anew.
    pub fn records(&self) -> impl Iterator<Item = SeenRecord> + '_ {
        self.seen
            .iter()
            .map(|(&(caller, request), life)| SeenRecord {
                caller,
                request,
                expires: life.wall,
            })
    }

    /// How much of the capacity this caller may fill up to: all of it, or what is not kept for those who have taken little.
    fn capacity_for(&self, caller: &[u8; 32]) -> usize {
        /// One part in so many is kept.
        const RESERVED_CAPACITY_DIVISOR: usize = 8;
        /// And one part in so many of the capacity is little.
        const SMALL_SHARE_DIVISOR: usize = 64;
        let held = self.held.get(caller).copied().unwrap_or_default();
        if held < (self.capacity / SMALL_SHARE_DIVISOR).max(1) {
            return self.capacity;
        }
        self.capacity - self.capacity / RESERVED_CAPACITY_DIVISOR
    }

    fn remember_request(&mut self, entry: SeenRequestKey, life: RetentionDeadline) {
        let known = self.seen.get(&entry).copied();
        if known.is_none_or(|known| life.wall > known.wall) {
            self.seen.insert(entry, life);
            self.by_expiry.push(Reverse((life.wall, entry)));
        }
        if known.is_none() {
            *self.held.entry(entry.0).or_default() += 1;
        }
    }

    /// Forgets what nobody can replay any more, as every [`Self::insert`] does, and gives its room back.
    pub fn remove_expired(&mut self, now: DualClockInstant) {
        self.remove_expired_entries(now);
        let room = 4 * self.seen.len().max(MIN_RETAINED_CAPACITY);
        if self.seen.capacity() > room {
            self.seen.shrink_to(room / 2);
            self.by_expiry.shrink_to(room / 2);
        }
    }

    fn remove_expired_entries(&mut self, now: DualClockInstant) {
        while let Some(Reverse((expires, entry))) = self.by_expiry.peek()
            && *expires < now.wall
        {
            // A journal may have held the entry twice; its later end counts.
            if let Some(life) = self.seen.get(entry)
                && life.wall <= *expires
            {
                if life.steady >= now.steady {
                    // The clock was set forward. Who comes later in the heap waits with it, which costs room and nothing else.
                    return;
                }
                self.seen.remove(entry);
                if let Occupied(mut held) = self.held.entry(entry.0) {
                    *held.get_mut() -= 1;
                    if *held.get() == 0 {
                        held.remove();
                    }
                }
            }
            self.by_expiry.pop();
        }
    }
}

impl RetentionDeadline {
    /// Up to and including this instant of the wall clock, and as long as that is from now.
    fn from_expiry(wall: Millis, now: DualClockInstant) -> Self {
        let left = wall.saturating_sub(now.wall);
        Self {
            wall,
            steady: now.steady.saturating_add(left),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{DualClockInstant, SeenCache};
    use uuid::Uuid;

    #[test]
    fn what_a_flood_has_taken_is_given_back() {
        let mut cache = SeenCache::default();
        let at = |ms| DualClockInstant {
            wall: ms,
            steady: ms,
        };
        for _ in 0..50_000 {
            cache.insert(&[1; 32], Uuid::now_v7(), 1000, at(0));
        }
        assert!(cache.seen.capacity() >= 50_000);
        cache.remove_expired(at(1000));
        assert_eq!(cache.len(), 50_000);
        cache.remove_expired(at(1001));
        assert!(cache.is_empty() && cache.held.is_empty());
        assert!(cache.seen.capacity() < 2000 && cache.by_expiry.capacity() < 2000);
    }
}
