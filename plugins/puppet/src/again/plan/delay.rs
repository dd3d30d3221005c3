//! Computes delays: a random part against stampedes, and a longer one for each repetition. Pure; random numbers are arguments.

use std::collections::VecDeque;

use muster_api::wire::Millis;

use crate::again::policy::{AgainPolicy, StartLimit};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DelayTerms {
    /// The delay that was asked for.
    pub min: Millis,
    /// The longest delay that was asked for.
    pub max: Option<Millis>,
    /// The additional delay of the run before, if this one repeats it.
    pub previous_backoff: Option<Millis>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChosenDelay {
    /// The whole delay.
    pub total: Millis,
    /// The part of it that grows with repetitions.
    pub backoff: Millis,
}

/// Chooses a delay: the minimum, a random part of the spread, and for a repetition a random time of up to three times the last one (decorrelated
/// backoff). The maximum that was asked for bounds it, but never below the minimum.
pub fn choose_delay(terms: DelayTerms, policy: &AgainPolicy, seed: u64) -> ChosenDelay {
    let spread = if terms.min == 0 { 0 } else { policy.spread.max(terms.min / 2) };
    let backoff = terms.previous_backoff.map_or(0, |previous| {
        let base = policy.backoff_base;
        let span = previous.saturating_mul(3).saturating_sub(base);
        base.saturating_add(draw_below(next_seed(seed), span)).min(policy.backoff_cap)
    });
    let jitter = draw_below(seed, spread);
    let total = terms.min.saturating_add(jitter).saturating_add(backoff);
    let max = terms.max.unwrap_or(Millis::MAX).max(terms.min);
    ChosenDelay { total: total.min(max), backoff }
}

/// The earliest time at which another run may begin, after runs that began at these times, oldest first.
pub fn next_allowed_start(starts: &VecDeque<Millis>, limits: &[StartLimit]) -> Millis {
    let after = |limit: &StartLimit| {
        let first = starts.iter().rev().nth(limit.count.saturating_sub(1));
        first.map_or(0, |start| start.saturating_add(limit.period))
    };
    limits.iter().map(after).max().unwrap_or_default()
}

/// A number between 0 and `span`, both included, from a random one.
fn draw_below(seed: u64, span: Millis) -> Millis {
    let product = u128::from(seed) * (u128::from(span) + 1);
    u64::try_from(product >> 64).unwrap_or(span)
}

/// Another random number from the same seed: the step of `SplitMix64`.
fn next_seed(seed: u64) -> u64 {
    let mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
