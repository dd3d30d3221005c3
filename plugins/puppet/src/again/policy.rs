//! The section `[plugins.again]`, and the limits that the planner obeys.

use std::num::NonZeroU32;

use muster_api::wire::Millis;
use serde::Deserialize;

const SECOND: Millis = 1000;

/// The section `[plugins.again]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AgainOptions {
    /// Whether the node has the agent, and starts runs that are asked for.
    pub enabled: bool,
    /// How many runs of this agent may begin per minute across the collective. 0: no limit.
    pub budget: u32,
    /// How many runs of this agent may begin on this node in ten minutes.
    pub burst: NonZeroU32,
    /// How many runs of this agent may begin on this node in a day.
    pub daily: NonZeroU32,
    /// A delay is prolonged by a random time up to half of it, but at least up to this many seconds.
    pub spread: u64,
    /// The most seconds by which repeated requests of a chain of runs are delayed.
    pub backoff: u64,
    /// After this many successive runs with the same events the node is oscillating.
    pub identical_runs: NonZeroU32,
    /// A request without a deadline expires after this many seconds.
    pub deadline: u64,
}

const BURST: NonZeroU32 = NonZeroU32::MIN.saturating_add(2);
const DAILY: NonZeroU32 = NonZeroU32::MIN.saturating_add(9);
const IDENTICAL_RUNS: NonZeroU32 = NonZeroU32::MIN.saturating_add(1);

impl Default for AgainOptions {
    fn default() -> Self {
        Self {
            enabled: true,
            budget: 60,
            burst: BURST,
            daily: DAILY,
            spread: 10,
            backoff: 300,
            identical_runs: IDENTICAL_RUNS,
            deadline: 86_400,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartLimit {
    pub count: usize,
    /// In how many milliseconds.
    pub period: Millis,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgainPolicy {
    pub limits: [StartLimit; 2],
    /// See [`AgainOptions::spread`], in milliseconds.
    pub spread: Millis,
    /// The first additional delay of a repeated request.
    pub backoff_base: Millis,
    /// The longest additional delay of a repeated request.
    pub backoff_cap: Millis,
    /// See [`AgainOptions::identical_runs`].
    pub identical_runs: u32,
    /// See [`AgainOptions::deadline`], in milliseconds.
    pub deadline: Millis,
}

impl AgainPolicy {
    pub fn from_options(options: &AgainOptions) -> Self {
        let limit = |count: NonZeroU32, period: Millis| StartLimit {
            count: usize::try_from(count.get()).unwrap_or(usize::MAX),
            period,
        };
        Self {
            limits: [limit(options.burst, 600 * SECOND), limit(options.daily, 86_400 * SECOND)],
            spread: options.spread.saturating_mul(SECOND),
            backoff_base: SECOND,
            backoff_cap: options.backoff.saturating_mul(SECOND),
            identical_runs: options.identical_runs.get(),
            deadline: options.deadline.saturating_mul(SECOND),
        }
    }
}

impl Default for AgainPolicy {
    fn default() -> Self {
        Self::from_options(&AgainOptions::default())
    }
}
