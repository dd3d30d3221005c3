//! Counts requests by action and outcome, and refusals by stage. The number of series is bounded for any caller input: actions that the node does
//! not offer share one series.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use muster_host::AgentRegistry;
use muster_wire::Millis;
use muster_wire::request::Request;
use muster_wire::status::ReplyStatus;
use muster_wire::trace::StageName;

use crate::ground::shared::lock_mutex;

/// The label of all agents and actions that the node does not offer. No valid name starts with an underscore.
const OTHER_LABEL: &str = "_other";
/// Maximum number of series of one kind; external agents that are added and removed must not grow it without bound.
const MAX_SERIES: usize = 10_000;

/// Refusals that are counted from 0. Prometheus computes no increase from a series that begins with its first refusals, so an alert would miss them.
const REFUSALS_FROM_ZERO: [(StageName, &str); 21] = {
    use StageName::{Authorise, Fresh, Verify};
    [
        (Verify, "oversized"),
        (Verify, "malformed"),
        (Verify, "unknown_protocol"),
        (Verify, "bad_signature"),
        (Verify, "wrong_role"),
        (Verify, "invalid_request"),
        (Verify, "wrong_sender"),
        (Verify, "subject_mismatch"),
        (Verify, "token_oversized"),
        (Verify, "token_malformed"),
        (Verify, "token_name"),
        (Verify, "token_algorithm"),
        (Verify, "token_signature"),
        (Verify, "unknown_issuer"),
        (Verify, "foreign_account"),
        (Verify, "token_expired"),
        (Verify, "token_not_yet"),
        (Verify, "revoked"),
        (Fresh, "expired"),
        (Fresh, "replayed"),
        (Authorise, "denied"),
    ]
};

/// An action that the node offers, or `OTHER_LABEL`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownAction<'a> {
    agent: &'a str,
    action: &'a str,
}

impl<'a> KnownAction<'a> {
    /// The action of a request, if these agents offer it.
    pub(crate) fn from_request(registry: &AgentRegistry, request: &'a Request) -> Self {
        let (agent, action) = (request.agent.as_str(), request.action.as_str());
        match registry.agent(agent) {
            None => Self::OTHER,
            Some(known) if known.ddl().find_action(action).is_some() => Self { agent, action },
            Some(_) => Self { agent, action: OTHER_LABEL },
        }
    }

    const OTHER: Self = Self { agent: OTHER_LABEL, action: OTHER_LABEL };
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OutcomeLabels {
    pub agent: String,
    pub action: String,
    pub status: u8,
    pub reason: &'static str,
}

/// Number and total duration of an action's runs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct DurationSummary {
    pub count: u64,
    pub sum: Duration,
}

impl AddAssign for DurationSummary {
    fn add_assign(&mut self, other: Self) {
        self.count += other.count;
        self.sum += other.sum;
    }
}

/// The counts since the daemon started.
#[derive(Debug, Default)]
pub struct RequestMetrics {
    outcomes: Mutex<BTreeMap<OutcomeLabels, u64>>,
    durations: Mutex<BTreeMap<(String, String), DurationSummary>>,
    refusals: Mutex<BTreeMap<(StageName, &'static str), u64>>,
    /// When the last authenticated request arrived; 0 before the first.
    last_arrival: AtomicU64,
}

impl RequestMetrics {
    /// Records the arrival of an authenticated request.
    pub(crate) fn record_arrival(&self, now: Millis) {
        self.last_arrival.fetch_max(now, Ordering::Relaxed);
    }

    /// Records the end of an authenticated caller's request, by an action or a refusal.
    pub(crate) fn record_outcome(
        &self,
        known: KnownAction<'_>,
        status: ReplyStatus,
        reason: &'static str,
    ) {
        let labels = |known: KnownAction<'_>| OutcomeLabels {
            agent: known.agent.to_owned(),
            action: known.action.to_owned(),
            status: status.code(),
            reason,
        };
        *bounded_entry(&mut lock_mutex(&self.outcomes), labels(known), || {
            labels(KnownAction::OTHER)
        }) += 1;
    }

    pub(crate) fn record_duration(&self, known: KnownAction<'_>, time: Duration) {
        let key = |known: KnownAction<'_>| (known.agent.to_owned(), known.action.to_owned());
        let mut durations = lock_mutex(&self.durations);
        let summary = bounded_entry(&mut durations, key(known), || key(KnownAction::OTHER));
        summary.count += 1;
        summary.sum += time;
    }

    /// Stages and reasons are constants of the program, so their number is bounded.
    pub(crate) fn record_refusal(&self, stage: StageName, reason: &'static str) {
        *lock_mutex(&self.refusals).entry((stage, reason)).or_default() += 1;
    }

    pub fn outcome_counts(&self) -> BTreeMap<OutcomeLabels, u64> {
        lock_mutex(&self.outcomes).clone()
    }

    pub fn action_durations(&self) -> BTreeMap<(String, String), DurationSummary> {
        lock_mutex(&self.durations).clone()
    }

    pub fn refusal_counts(&self) -> BTreeMap<(StageName, &'static str), u64> {
        let mut counts: BTreeMap<_, _> = REFUSALS_FROM_ZERO.map(|refusal| (refusal, 0)).into();
        counts.extend(lock_mutex(&self.refusals).iter().map(|(refusal, count)| (*refusal, *count)));
        counts
    }

    /// When the last authenticated request arrived.
    pub fn last_arrival(&self) -> Option<Millis> {
        Some(self.last_arrival.load(Ordering::Relaxed)).filter(|time| *time > 0)
    }
}

/// The entry of this key, or the shared entry if there are too many.
fn bounded_entry<K: Ord, V: Default>(
    series: &mut BTreeMap<K, V>,
    key: K,
    other: impl FnOnce() -> K,
) -> &mut V {
    let full = series.len() >= MAX_SERIES && !series.contains_key(&key);
    series.entry(if full { other() } else { key }).or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use muster_wire::status::ReplyStatus;

    use super::{KnownAction, MAX_SERIES, OTHER_LABEL, RequestMetrics};

    #[test]
    fn series_are_separate_and_their_number_is_bounded() {
        let tallies = RequestMetrics::default();
        for number in 0..MAX_SERIES + 50 {
            let action = format!("action{number}");
            let what = KnownAction { agent: "many", action: &action };
            tallies.record_outcome(what, ReplyStatus::Ok, "");
            tallies.record_duration(what, Duration::from_secs(1));
        }
        let (ends, times) = (tallies.outcome_counts(), tallies.action_durations());
        assert!(ends.len() <= MAX_SERIES + 1 && times.len() <= MAX_SERIES + 1);
        assert_eq!(ends.values().sum::<u64>(), MAX_SERIES as u64 + 50);
        let other = times.get(&(OTHER_LABEL.to_owned(), OTHER_LABEL.to_owned())).unwrap();
        assert_eq!((other.count, other.sum), (50, Duration::from_secs(50)));
    }

    #[test]
    fn last_arrival_is_the_latest_time() {
        let tallies = RequestMetrics::default();
        assert_eq!(tallies.last_arrival(), None);
        tallies.record_arrival(5);
        tallies.record_arrival(3);
        assert_eq!(tallies.last_arrival(), Some(5));
    }
}
