//! A limit that follows the health of what the runs load: one more per period while all is well, half when it is not.

use muster_wire::Millis;
use serde::{Deserialize, Serialize};

/// Share of the latency target below which the limit may grow, in percent. Between this and the target it stays.
const GROW_BELOW_PERCENT: u64 = 80;
/// Good periods in a row before the limit grows after it was halved.
const GOOD_AFTER_DECREASE: u32 = 3;

/// How the measured service was in one period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HealthSample {
    /// Its latency.
    pub latency: Millis,
    /// Errors in the period.
    pub errors: u32,
}

/// What is still healthy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HealthTarget {
    /// Highest healthy latency.
    pub latency: Millis,
    /// Most errors of a healthy period.
    pub errors: u32,
}

/// A limit on concurrent runs between two bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdaptiveLimit {
    min: u32,
    max: u32,
    current: u32,
    /// Good periods that are required before the limit grows.
    required_good: u32,
}

/// A change of the limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitChange {
    /// Before.
    pub from: u32,
    /// From now on.
    pub to: u32,
    /// Why, for people.
    pub reason: String,
}

impl AdaptiveLimit {
    /// Begins at the lower bound. Bounds in the wrong order are exchanged; the lower one is at least 1.
    pub fn new(min: u32, max: u32) -> Self {
        let (min, max) = (min.min(max).max(1), max.max(min).max(1));
        Self { min, max, current: min, required_good: 1 }
    }

    /// The limit.
    pub fn current(&self) -> u32 {
        self.current
    }

    /// Takes the sample of one period into account.
    pub fn observe(&mut self, sample: HealthSample, target: HealthTarget) -> Option<LimitChange> {
        let HealthSample { latency, errors } = sample;
        if errors > target.errors {
            let reason = format!("{errors} errors, more than {}", target.errors);
            return self.decrease(reason);
        }
        if latency > target.latency {
            let reason = format!("latency {latency} ms, above {} ms", target.latency);
            return self.decrease(reason);
        }
        if latency > target.latency.saturating_mul(GROW_BELOW_PERCENT) / 100 {
            self.required_good = self.required_good.max(1);
            return None;
        }
        self.required_good = self.required_good.saturating_sub(1);
        if self.required_good > 0 {
            return None;
        }
        let reason = format!("latency {latency} ms, below {} ms", target.latency);
        self.change_to(self.current.saturating_add(1).min(self.max), reason)
    }

    fn decrease(&mut self, reason: String) -> Option<LimitChange> {
        self.required_good = GOOD_AFTER_DECREASE;
        self.change_to((self.current / 2).max(self.min), reason)
    }

    fn change_to(&mut self, to: u32, reason: String) -> Option<LimitChange> {
        let from = std::mem::replace(&mut self.current, to);
        (from != to).then_some(LimitChange { from, to, reason })
    }
}
