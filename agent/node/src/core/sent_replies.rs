//! Replies that were sent, in memory, so that a caller that missed one gets it by repeating its request: a reply is lost if the node, the broker or the caller
//! is cut off while it is on its way. The request itself is not executed again.
//!
//! Bounded by bytes, number and age, separately for changes and for everything else, so that reads do not push out the results of changes.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use muster_bus::Bytes;
use uuid::Uuid;

use crate::ground::shared::lock_mutex;

/// Shortest time between two repetitions of one reply: captured requests must not cause more traffic than they need.
const REPEAT_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct SentReplies {
    changes: Mutex<ReplyPool>,
    others: Mutex<ReplyPool>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentReply {
    /// The caller's inbox.
    pub subject: String,
    /// The signed reply.
    pub payload: Bytes,
}

impl SentReply {
    fn bytes(&self) -> usize {
        self.subject.len() + self.payload.len()
    }
}

#[derive(Debug)]
struct ReplyPool {
    limits: PoolLimits,
    replies: HashMap<Uuid, KeptReply>,
    /// By age, oldest first.
    order: VecDeque<(Uuid, Instant)>,
    bytes: usize,
}

#[derive(Debug, Clone, Copy)]
struct PoolLimits {
    count: usize,
    bytes: usize,
    age: Duration,
}

#[derive(Debug)]
struct KeptReply {
    reply: SentReply,
    repeated_at: Option<Instant>,
}

impl Default for SentReplies {
    fn default() -> Self {
        let pool = |count, bytes, age| Mutex::new(ReplyPool::new(PoolLimits { count, bytes, age }));
        Self {
            changes: pool(1024, 8 * 1024 * 1024, Duration::from_hours(1)),
            others: pool(256, 1024 * 1024, Duration::from_mins(5)),
        }
    }
}

impl SentReplies {
    /// Keeps nothing; for virtual nodes, of which a process has thousands.
    pub fn disabled() -> Self {
        let limits = PoolLimits { count: 0, bytes: 0, age: Duration::ZERO };
        let pool = || Mutex::new(ReplyPool::new(limits));
        Self { changes: pool(), others: pool() }
    }

    /// Keeps the reply to a request, by the id of its work on the node.
    pub fn keep(&self, work: Uuid, reply: SentReply, is_change: bool, now: Instant) {
        let pool = if is_change { &self.changes } else { &self.others };
        lock_mutex(pool).keep(work, reply, now);
    }

    /// The reply to a request that is repeated, if it is still kept and was not repeated just before.
    pub fn repeat(&self, work: Uuid, now: Instant) -> Option<SentReply> {
        [&self.changes, &self.others]
            .into_iter()
            .find_map(|pool| lock_mutex(pool).repeat(work, now))
    }

    pub fn drop_old(&self, now: Instant) {
        for pool in [&self.changes, &self.others] {
            lock_mutex(pool).shrink(now);
        }
    }
}

impl ReplyPool {
    fn new(limits: PoolLimits) -> Self {
        Self { limits, replies: HashMap::new(), order: VecDeque::new(), bytes: 0 }
    }

    fn keep(&mut self, work: Uuid, reply: SentReply, now: Instant) {
        // One reply must not push out many.
        if reply.bytes() > self.limits.bytes / 4 || self.replies.contains_key(&work) {
            return;
        }
        self.bytes += reply.bytes();
        self.replies.insert(work, KeptReply { reply, repeated_at: None });
        self.order.push_back((work, now));
        self.shrink(now);
    }

    fn shrink(&mut self, now: Instant) {
        while let Some((work, kept_at)) = self.order.front().copied() {
            let is_old = now.saturating_duration_since(kept_at) > self.limits.age;
            if !is_old && self.order.len() <= self.limits.count && self.bytes <= self.limits.bytes {
                return;
            }
            self.order.pop_front();
            let dropped = self.replies.remove(&work).map_or(0, |kept| kept.reply.bytes());
            self.bytes = self.bytes.saturating_sub(dropped);
        }
        // The memory of a burst is given back.
        self.replies.shrink_to_fit();
        self.order.shrink_to_fit();
    }

    fn repeat(&mut self, work: Uuid, now: Instant) -> Option<SentReply> {
        let kept = self.replies.get_mut(&work)?;
        let is_early = |at: Instant| now.saturating_duration_since(at) < REPEAT_INTERVAL;
        if kept.repeated_at.is_some_and(is_early) {
            return None;
        }
        kept.repeated_at = Some(now);
        Some(kept.reply.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use muster_bus::Bytes;
    use uuid::Uuid;

    use super::{PoolLimits, REPEAT_INTERVAL, ReplyPool, SentReply};

    fn reply(bytes: usize) -> SentReply {
        SentReply { subject: String::new(), payload: Bytes::from(vec![0; bytes]) }
    }

    #[test]
    fn pool_is_bounded_by_count_bytes_and_age() {
        let age = Duration::from_mins(1);
        let mut pool = ReplyPool::new(PoolLimits { count: 3, bytes: 100, age });
        let (start, id) = (Instant::now(), Uuid::from_u128);
        for number in 0..4 {
            pool.keep(id(number), reply(10), start);
        }
        assert!(pool.repeat(id(0), start).is_none(), "a fourth one");
        assert_eq!(pool.repeat(id(1), start), Some(reply(10)));
        assert!(pool.repeat(id(1), start).is_none(), "at once");
        assert!(pool.repeat(id(1), start + REPEAT_INTERVAL).is_some());
        pool.keep(id(9), reply(26), start);
        assert!(pool.repeat(id(9), start).is_none(), "more than a quarter");
        for number in 5..8 {
            pool.keep(id(number), reply(25), start + age / 2);
        }
        assert_eq!((pool.order.len(), pool.bytes), (3, 75));
        pool.shrink(start + age + age / 4);
        assert_eq!(pool.replies.len(), 3);
        pool.shrink(start + age * 2);
        assert_eq!((pool.replies.len(), pool.order.len(), pool.bytes), (0, 0, 0));
    }
}
