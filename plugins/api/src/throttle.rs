//! Log throttle: one log line for many identical messages. Unauthenticated senders can cause such messages without limit and must not fill the
//! disk. Pure: the caller passes the time.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Admits one message per interval, and counts the suppressed ones.
///
/// ```
/// use std::time::{Duration, Instant};
/// use muster_api::LogThrottle;
///
/// let lines = LogThrottle::new(Duration::from_secs(10));
/// let now = Instant::now();
/// assert_eq!(lines.admit(now), Some(0), "the first is told at once");
/// assert_eq!(lines.admit(now), None);
/// assert_eq!(lines.admit(now + Duration::from_secs(10)), Some(1), "and how many were not");
/// ```
#[derive(Debug)]
pub struct LogThrottle {
    interval: Duration,
    state: Mutex<ThrottleState>,
}

#[derive(Debug, Default)]
struct ThrottleState {
    last: Option<Instant>,
    suppressed: u64,
}

impl LogThrottle {
    /// Admits at most one message per `interval`.
    pub fn new(interval: Duration) -> Self {
        Self { interval, state: Mutex::default() }
    }

    /// Whether to log this message: `Some` with the number of messages suppressed since the last one, or `None` while the interval has not passed.
    pub fn admit(&self, now: Instant) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let too_soon = |last| now.saturating_duration_since(last) < self.interval;
        if state.last.is_some_and(too_soon) {
            state.suppressed = state.suppressed.saturating_add(1);
            return None;
        }
        state.last = Some(now);
        Some(std::mem::take(&mut state.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::LogThrottle;

    proptest! {
        #[test]
        fn each_line_is_admitted_or_counted_and_the_interval_is_kept(pauses in prop::collection::vec(0..30_u64, 0..100)) {
            let throttle = LogThrottle::new(Duration::from_secs(10));
            let (mut now, mut told, mut last) = (Instant::now(), 0, None);
            for pause in &pauses {
                now += Duration::from_secs(*pause);
                if let Some(held_back) = throttle.admit(now) {
                    told += 1 + held_back;
                    if let Some(last) = last.replace(now) {
                        prop_assert!(now - last >= Duration::from_secs(10));
                    }
                }
            }
            // The next admitted line reports the remaining count.
            let rest = throttle.admit(now + Duration::from_secs(10));
            prop_assert_eq!(rest.map(|held_back| told + held_back), Some(pauses.len() as u64));
        }
    }
}
