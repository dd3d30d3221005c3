//! Lifetime and renewal of node tokens. A token is renewed after a third of its lifetime, so that two thirds remain for retries
//! and outages.

use super::claims::{TokenClaims, UserClaims};
use crate::limits::MAX_NODE_TOKEN_SECONDS;
use crate::{Millis, Seconds};

/// Expiry and lifetime of a token that expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenLife {
    /// Expiry time, in seconds since the epoch.
    pub expires: Seconds,
    /// Total lifetime, in seconds.
    pub lifetime: Seconds,
}

impl TokenLife {
    /// The lifetime of a token issued now: at most [`MAX_NODE_TOKEN_SECONDS`].
    pub fn from_now(lifetime: Seconds, now: Millis) -> Self {
        let lifetime = lifetime.min(MAX_NODE_TOKEN_SECONDS);
        Self { expires: (now / 1000).saturating_add(lifetime), lifetime }
    }

    /// The lifetime in a token's claims; `None` if it never expires.
    pub fn of_claims(claims: &TokenClaims<UserClaims>) -> Option<Self> {
        (claims.exp != 0)
            .then(|| Self { expires: claims.exp, lifetime: claims.exp.saturating_sub(claims.iat) })
    }

    /// Remaining lifetime, in seconds.
    pub fn seconds_left(&self, now: Millis) -> Seconds {
        self.expires.saturating_sub(now / 1000)
    }

    /// Whether a third of the lifetime has passed.
    pub fn is_renewal_due(&self, now: Millis) -> bool {
        self.seconds_left(now) <= self.lifetime / 3 * 2
    }

    /// Whether two thirds of the lifetime have passed, so that renewal has failed for a long time.
    pub fn is_renewal_late(&self, now: Millis) -> bool {
        self.seconds_left(now) <= self.lifetime / 3
    }

    /// Whether the token expired.
    pub fn has_expired(&self, now: Millis) -> bool {
        self.seconds_left(now) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_NODE_TOKEN_SECONDS, TokenLife};

    #[test]
    fn renewal_is_due_after_one_third_and_late_after_two_thirds() {
        let life = TokenLife::from_now(90, 1_000_999);
        assert_eq!(life.expires, 1_090);
        let stages =
            |now: u64| (life.is_renewal_due(now), life.is_renewal_late(now), life.has_expired(now));
        assert_eq!(stages(1_029_999), (false, false, false));
        assert_eq!(stages(1_030_000), (true, false, false));
        assert_eq!(stages(1_059_999), (true, false, false));
        assert_eq!(stages(1_060_000), (true, true, false));
        assert_eq!(stages(1_089_999), (true, true, false));
        assert_eq!(stages(1_090_000), (true, true, true));
        assert_eq!(stages(u64::MAX), (true, true, true));
        assert_eq!(TokenLife::from_now(u64::MAX, 0).lifetime, MAX_NODE_TOKEN_SECONDS);
        assert_eq!(TokenLife::from_now(9, u64::MAX).seconds_left(u64::MAX), 9);
    }
}
