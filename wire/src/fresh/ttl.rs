//! The age check of requests, with tolerance for clock skew.

use muster_base::format_millis;

use crate::Millis;

/// Default tolerance for clock differences, in milliseconds.
pub const CLOCK_SKEW_MILLIS: Millis = 30_000;

/// A request that expired, or whose issue time is in the future.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the request is {} by this node's clock; its ttl is {}, and the allowed clock skew is {}",
    describe_age(*age_ms),
    format_millis(*ttl),
    format_millis(*skew)
)]
pub struct StaleRequest {
    /// Its age by the receiver's clock, in milliseconds; negative if its issue time is in the future.
    pub age_ms: i64,
    /// The request's ttl.
    pub ttl: Millis,
    /// The allowed skew.
    pub skew: Millis,
}

/// `2 m 00 s old`; a negative age is `2 m 00 s in the future`.
pub fn describe_age(age_ms: i64) -> String {
    let direction = if age_ms < 0 { "in the future" } else { "old" };
    format!("{} {direction}", format_millis(age_ms.unsigned_abs()))
}

/// Checks the age of a request.
///
/// Accepted while `issued_at - skew <= now <= issued_at + ttl + skew`. The skew applies at both ends, because a receiver
/// whose clock is ahead must not refuse a request that was just signed.
pub fn check_freshness(
    issued_at: Millis,
    ttl: Millis,
    now: Millis,
    skew: Millis,
) -> Result<(), StaleRequest> {
    let from_future = issued_at > now.saturating_add(skew);
    let expired = now > issued_at.saturating_add(ttl).saturating_add(skew);
    if from_future || expired {
        return Err(StaleRequest { age_ms: signed_age(issued_at, now), ttl, skew });
    }
    Ok(())
}

/// How long a request must be remembered: one skew longer than [`check_freshness`] accepts it, so that setting the clock back by
/// up to one skew does not allow a replay.
pub fn remember_until(issued_at: Millis, ttl: Millis, skew: Millis) -> Millis {
    issued_at.saturating_add(ttl).saturating_add(skew.saturating_mul(2))
}

fn signed_age(issued_at: Millis, now: Millis) -> i64 {
    let magnitude = i64::try_from(now.abs_diff(issued_at)).unwrap_or(i64::MAX);
    if issued_at > now { -magnitude } else { magnitude }
}
