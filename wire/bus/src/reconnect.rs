//! Reconnection delays: exponential backoff with full jitter.
//!
//! The client library's own delay has no randomness, so all nodes would reconnect simultaneously after a broker restart. With full
//! jitter each node waits a random time between zero and a growing maximum, which spreads N reconnections evenly over it.

use std::time::Duration;

use rand::Rng;

/// Maximum delay before an attempt.
#[derive(Debug, Clone, Copy)]
pub struct ReconnectBackoff {
    /// Maximum of the first delay. A fleet of 50,000 nodes needs some seconds; an interactive command needs none.
    pub first: Duration,
    /// Upper bound of all maxima.
    pub max: Duration,
}

impl ReconnectBackoff {
    /// For daemons: the first reconnection is spread over 2 s, later ones over up to 30 s.
    pub const DAEMON: Self = Self { first: Duration::from_secs(2), max: Duration::from_secs(30) };

    /// For interactive commands.
    pub const COMMAND: Self =
        Self { first: Duration::from_millis(50), max: Duration::from_secs(2) };

    /// For daemons of a fleet whose reconnections are to be spread over this time; failed attempts double it, up to 30 s or this time.
    pub fn spread_over(first: Duration) -> Self {
        Self { first, max: Self::DAEMON.max.max(first) }
    }

    /// Maximum delay before the given attempt, counted from 1: doubles each time.
    pub fn max_delay(&self, attempt: usize) -> Duration {
        // 2^16 times any `first` exceeds `max`, and cannot overflow the shift.
        let doublings = u32::try_from(attempt.saturating_sub(1)).unwrap_or(u32::MAX).min(16);
        self.first.saturating_mul(1 << doublings).min(self.max)
    }

    /// The delay before an attempt, depending on whether the client was connected before.
    ///
    /// The first attempt of a new client is immediate: it did not lose its connection together with a whole fleet, and a user may be
    /// waiting.
    pub fn delay_before_attempt(&self, attempt: usize, was_connected: bool) -> Duration {
        if attempt <= 1 && !was_connected {
            return Duration::ZERO;
        }
        self.random_delay(attempt)
    }

    /// A random delay, uniform between zero and this time, that spreads the work of many nodes.
    pub fn random_within(max: Duration) -> Duration {
        Self { first: max, max }.random_delay(1)
    }

    /// A random delay, uniform between zero and the maximum.
    pub fn random_delay(&self, attempt: usize) -> Duration {
        self.max_delay(attempt).mul_f64(rand::rng().random::<f64>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maximum_delay_grows_up_to_its_limit() {
        let ceilings: Vec<u64> =
            (1..8).map(|attempt| ReconnectBackoff::DAEMON.max_delay(attempt).as_secs()).collect();
        assert_eq!(ceilings, [2, 4, 8, 16, 30, 30, 30]);
        assert_eq!(ReconnectBackoff::DAEMON.max_delay(usize::MAX).as_secs(), 30);
    }

    #[test]
    fn only_the_first_connection_has_no_delay() {
        let wait = |attempt, was_connected| {
            let waits = (0..100)
                .map(|_| ReconnectBackoff::COMMAND.delay_before_attempt(attempt, was_connected));
            waits.max().unwrap_or_default()
        };
        assert_eq!(wait(1, false), Duration::ZERO);
        assert!(wait(2, false) > Duration::ZERO);
        assert!(wait(1, true) > Duration::ZERO);
    }

    #[test]
    fn random_delays_cover_the_whole_range() {
        let mut bins = std::collections::BTreeMap::<u128, u32>::new();
        for _ in 0..1000 {
            *bins.entry(ReconnectBackoff::DAEMON.random_delay(1).as_millis() / 200).or_default() +=
                1;
        }
        let full = (0..10).all(|bin| (50..=150).contains(bins.get(&bin).unwrap_or(&0)));
        assert!(full, "{bins:?}");
    }
}
