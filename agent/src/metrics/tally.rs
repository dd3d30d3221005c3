//! Counts requests by what they asked and how they ended, and refusals by the stage that spoke them. The number of counts is
//! bounded, whatever callers ask for: what the node does not offer has no count of its own.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use muster_host::Registry;
use muster_wire::Millis;
use muster_wire::request::Request;
use muster_wire::status::Status;
use muster_wire::trace::StageName;

/// Stands for every agent and action that the node does not offer. No name begins so.
const OTHER: &str = "_other";
/// Counts of one kind that are kept; external agents that come and go must not make them without end.
const SERIES: usize = 10_000;

/// An action that the node offers, or [`OTHER`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known<'a> {
    agent: &'a str,
    action: &'a str,
}

impl<'a> Known<'a> {
    /// What a request asks for, as far as these agents know it.
    pub(crate) fn of(registry: &Registry, request: &'a Request) -> Self {
        let (agent, action) = (request.agent.as_str(), request.action.as_str());
        match registry.agent(agent) {
            None => Self::OTHER,
            Some(known) if known.ddl().action(action).is_some() => Self { agent, action },
            Some(_) => Self {
                agent,
                action: OTHER,
            },
        }
    }

    const OTHER: Self = Self {
        agent: OTHER,
        action: OTHER,
    };
}

/// How requests for an action ended.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct End {
    pub(super) agent: String,
    pub(super) action: String,
    pub(super) status: u8,
    pub(super) reason: &'static str,
}

/// How long an action ran, over all times that it did.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Took {
    pub(super) count: u64,
    pub(super) sum: Duration,
}

/// What was counted since the daemon started.
#[derive(Debug, Default)]
pub(crate) struct Tallies {
    ended: Mutex<BTreeMap<End, u64>>,
    took: Mutex<BTreeMap<(String, String), Took>>,
    refused: Mutex<BTreeMap<(StageName, &'static str), u64>>,
    /// When the last authentic request came; 0 before the first.
    last: AtomicU64,
}

impl Tallies {
    /// An authentic request came.
    pub(crate) fn came(&self, now: Millis) {
        self.last.fetch_max(now, Ordering::Relaxed);
    }

    /// A request of a proven caller ended, by an action or by a refusal.
    pub(crate) fn ended(&self, what: Known<'_>, status: Status, reason: &'static str) {
        let end = |what: Known<'_>| End {
            agent: what.agent.to_owned(),
            action: what.action.to_owned(),
            status: status.code(),
            reason,
        };
        *bounded(&mut lock(&self.ended), end(what), || end(Known::OTHER)) += 1;
    }

    /// An action ran.
    pub(crate) fn took(&self, what: Known<'_>, time: Duration) {
        let key = |what: Known<'_>| (what.agent.to_owned(), what.action.to_owned());
        let mut all = lock(&self.took);
        let took = bounded(&mut all, key(what), || key(Known::OTHER));
        took.count += 1;
        took.sum += time;
    }

    /// A stage has refused something. Stages and reasons are words of the program, so there are few.
    pub(crate) fn refused(&self, stage: StageName, reason: &'static str) {
        *lock(&self.refused).entry((stage, reason)).or_default() += 1;
    }

    pub(super) fn ends(&self) -> BTreeMap<End, u64> {
        lock(&self.ended).clone()
    }

    pub(super) fn times(&self) -> BTreeMap<(String, String), Took> {
        lock(&self.took).clone()
    }

    pub(super) fn refusals(&self) -> BTreeMap<(StageName, &'static str), u64> {
        lock(&self.refused).clone()
    }

    /// When the last authentic request came.
    pub(super) fn last(&self) -> Option<Millis> {
        Some(self.last.load(Ordering::Relaxed)).filter(|last| *last > 0)
    }
}

/// The count under this key, or under the one for all others when there are too many.
fn bounded<K: Ord, V: Default>(
    all: &mut BTreeMap<K, V>,
    key: K,
    other: impl FnOnce() -> K,
) -> &mut V {
    let full = all.len() >= SERIES && !all.contains_key(&key);
    all.entry(if full { other() } else { key }).or_default()
}

/// Numbers are never half written.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use muster_wire::status::Status;

    use super::{Known, OTHER, SERIES, Tallies};

    #[test]
    fn counts_are_kept_apart_and_their_number_is_bounded() {
        let tallies = Tallies::default();
        for number in 0..SERIES + 50 {
            let action = format!("action{number}");
            let what = Known {
                agent: "many",
                action: &action,
            };
            tallies.ended(what, Status::Ok, "");
            tallies.took(what, Duration::from_secs(1));
        }
        let (ends, times) = (tallies.ends(), tallies.times());
        assert!(ends.len() <= SERIES + 1 && times.len() <= SERIES + 1);
        assert_eq!(ends.values().sum::<u64>(), SERIES as u64 + 50);
        let other = times.get(&(OTHER.to_owned(), OTHER.to_owned())).unwrap();
        assert_eq!((other.count, other.sum), (50, Duration::from_secs(50)));
    }

    #[test]
    fn the_last_request_is_the_latest() {
        let tallies = Tallies::default();
        assert_eq!(tallies.last(), None);
        tallies.came(5);
        tallies.came(3);
        assert_eq!(tallies.last(), Some(5));
    }
}
