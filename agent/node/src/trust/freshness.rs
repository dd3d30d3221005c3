//! Since when it is unknown whether the account token is the newest: [`TrustFreshness`]. It makes no decision about requests; the pipeline and the
//! health report use it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use muster_base::format_millis;
use muster_wire::Millis;

use crate::ground::shared::lock_mutex;

/// Interval of reading the head while no change is announced.
const CHECK_INTERVAL: Duration = Duration::from_mins(5);

/// The health report warns after this time without a confirmed token, in milliseconds.
const STALE_REPORT_MILLIS: Millis = 60 * 60 * 1000;

/// Since when it is unknown whether the daemon's account token is the newest.
#[derive(Debug, Default)]
pub struct TrustFreshness {
    /// When the trust bucket last named no newer token; before the first time, when the daemon started.
    confirmed_at: AtomicU64,
    /// Requests are refused after this many milliseconds; 0 disables the check.
    max_age: AtomicU64,
    /// The error of the last check.
    problem: Mutex<Option<LookupProblem>>,
}

/// Why the last check did not confirm the token.
#[derive(Debug, Clone)]
pub(super) struct LookupProblem {
    pub(super) text: String,
    /// The bucket has an older token: the broker has lost data.
    pub(super) is_behind: bool,
}

impl TrustFreshness {
    pub(crate) fn starting_at(confirmed_at: Millis) -> Self {
        Self { confirmed_at: AtomicU64::new(confirmed_at), ..Self::default() }
    }

    /// Sets the age of the last confirmation after which requests are refused; `None` disables the check.
    pub fn set_max_age(&self, max_age: Option<Duration>) {
        let millis = max_age.map_or(0, |age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
        self.max_age.store(millis, Ordering::Release);
    }

    pub(super) fn has_max_age(&self) -> bool {
        self.max_age.load(Ordering::Acquire) != 0
    }

    /// Sets the time at which an earlier daemon confirmed the token, if this daemon has not confirmed it.
    pub(crate) fn set_confirmed_before(&self, at: Millis) {
        self.confirmed_at.fetch_min(at, Ordering::AcqRel);
    }

    pub fn confirmed_at(&self) -> Millis {
        self.confirmed_at.load(Ordering::Acquire)
    }

    /// The age of the last confirmation, if it exceeds the maximum.
    pub fn expired_age(&self, now: Millis) -> Option<Millis> {
        let max_age = self.max_age.load(Ordering::Acquire);
        let age = now.saturating_sub(self.confirmed_at());
        (max_age != 0 && age > max_age).then_some(age)
    }

    /// The problem to report if the token was not confirmed for too long.
    pub(crate) fn staleness_report(&self, now: Millis) -> Option<String> {
        let age = now.saturating_sub(self.confirmed_at());
        let problem = lock_mutex(&self.problem);
        let is_behind = problem.as_ref().is_some_and(|problem| problem.is_behind);
        if age < STALE_REPORT_MILLIS && self.expired_age(now).is_none() && !is_behind {
            return None;
        }
        let cause = problem.as_ref().map_or("not connected to the broker", |problem| &problem.text);
        let age = format_millis(age);
        Some(format!(
            "the account token has not been confirmed as the newest for {age}, so recent revocations may be missing: {cause}"
        ))
    }

    pub(super) fn check_interval(&self) -> Duration {
        match self.max_age.load(Ordering::Acquire) {
            0 => CHECK_INTERVAL,
            max_age => CHECK_INTERVAL.min(Duration::from_millis(max_age / 4 + 1)),
        }
    }

    pub(super) fn confirm(&self, now: Millis) {
        self.confirmed_at.store(now, Ordering::Release);
        self.set_problem(None);
    }

    pub(super) fn set_problem(&self, problem: Option<LookupProblem>) {
        *lock_mutex(&self.problem) = problem;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{LookupProblem, STALE_REPORT_MILLIS, TrustFreshness};

    #[test]
    fn unconfirmed_token_is_reported_and_expires_if_configured() {
        let freshness = TrustFreshness::starting_at(1_000);
        assert_eq!(freshness.staleness_report(1_000 + STALE_REPORT_MILLIS - 1), None);
        assert!(freshness.staleness_report(1_000 + STALE_REPORT_MILLIS).is_some());
        assert_eq!(freshness.expired_age(u64::MAX), None);
        freshness.set_max_age(Some(Duration::from_secs(10)));
        assert_eq!(freshness.expired_age(11_000), None);
        assert_eq!(freshness.expired_age(11_001), Some(10_001));
        let problem = |is_behind| Some(LookupProblem { text: "no bucket".to_owned(), is_behind });
        freshness.set_problem(problem(false));
        assert!(freshness.staleness_report(11_001).unwrap().contains("no bucket"));
        freshness.confirm(11_001);
        assert_eq!(freshness.expired_age(21_001), None);
        assert_eq!(freshness.staleness_report(11_002), None);
        freshness.set_problem(problem(true));
        assert!(freshness.staleness_report(11_002).is_some(), "lost data is reported at once");
    }
}
