//! The age of a request, between two clocks that differ.

use crate::Millis;

/// How far two parties' clocks may differ, in milliseconds, unless configured otherwise.
pub const CLOCK_SKEW_MILLIS: Millis = 30_000;

/// A request that must not begin any more, or not yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the request is {age_ms} ms old by this clock, its ttl is {ttl} ms and clocks may differ by {skew} ms"
)]
pub struct StaleRequest {
    /// Its age by the receiver's clock, in milliseconds; negative when it comes from the future.
    pub age_ms: i64,
    /// The ttl that its caller gave it.
    pub ttl: Millis,
    /// The tolerance.
    pub skew: Millis,
}

/// Judges the age of a request.
///
/// Accepted while `issued_at - skew <= now <= issued_at + ttl + skew`: the skew is allowed at both ends, because a
/// receiver whose clock is ahead must not refuse what the caller has only just signed.
pub fn check_freshness(
    issued_at: Millis,
    ttl: Millis,
    now: Millis,
    skew: Millis,
) -> Result<(), StaleRequest> {
    let from_future = issued_at > now.saturating_add(skew);
    let expired = now > issued_at.saturating_add(ttl).saturating_add(skew);
    if from_future || expired {
        return Err(StaleRequest {
            age_ms: signed_age(issued_at, now),
            ttl,
            skew,
        });
    }
    Ok(())
}

/// Until when a request must be remembered as seen: one skew longer than [`check_freshness`] accepts it, so that a clock that is
/// set back by as much opens no gap.
pub fn remember_until(issued_at: Millis, ttl: Millis, skew: Millis) -> Millis {
    issued_at
        .saturating_add(ttl)
        .saturating_add(skew.saturating_mul(2))
}

fn signed_age(issued_at: Millis, now: Millis) -> i64 {
    let size = i64::try_from(now.abs_diff(issued_at)).unwrap_or(i64::MAX);
    if issued_at > now { -size } else { size }
}
