//! How long a node's token lives, and when it is renewed: once a third of its life is over, so that two thirds remain for whatever keeps
//! the renewal from reaching the node.

use serde::{Deserialize, Serialize};

use super::Seconds;
use super::claims::{TokenClaims, UserClaims};
use crate::Millis;
use crate::limits::MAX_NODE_TOKEN_SECONDS;

/// The life of a token that ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenLife {
    /// When it ends, in seconds since the epoch.
    pub expires: Seconds,
    /// How long it lives in all, in seconds.
    pub lifetime: Seconds,
}

impl TokenLife {
    /// The life of a token that is issued now: at most [`MAX_NODE_TOKEN_SECONDS`].
    pub fn from_now(lifetime: Seconds, now: Millis) -> Self {
        let lifetime = lifetime.min(MAX_NODE_TOKEN_SECONDS);
        Self {
            expires: (now / 1000).saturating_add(lifetime),
            lifetime,
        }
    }

    /// The life that a token states; `None` for one that never ends.
    pub fn of_claims(claims: &TokenClaims<UserClaims>) -> Option<Self> {
        (claims.exp != 0).then(|| Self {
            expires: claims.exp,
            lifetime: claims.exp.saturating_sub(claims.iat),
        })
    }

    /// How long it still lives, in seconds.
    pub fn seconds_left(&self, now: Millis) -> Seconds {
        self.expires.saturating_sub(now / 1000)
    }

    /// Whether a third of it is over.
    pub fn is_renewal_due(&self, now: Millis) -> bool {
        self.seconds_left(now) <= self.lifetime / 3 * 2
    }

    /// Whether two thirds of it are over, so that a renewal has failed for long.
    pub fn is_renewal_late(&self, now: Millis) -> bool {
        self.seconds_left(now) <= self.lifetime / 3
    }

    /// Whether it is over.
    pub fn has_expired(&self, now: Millis) -> bool {
        self.seconds_left(now) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_NODE_TOKEN_SECONDS, TokenLife};

    #[test]
    fn a_token_is_renewed_after_a_third_and_late_after_two() {
        let life = TokenLife::from_now(90, 1_000_999);
        assert_eq!(life.expires, 1_090);
        let stages = |now: u64| {
            (
                life.is_renewal_due(now),
                life.is_renewal_late(now),
                life.has_expired(now),
            )
        };
        assert_eq!(stages(1_029_999), (false, false, false));
        assert_eq!(stages(1_030_000), (true, false, false));
        assert_eq!(stages(1_059_999), (true, false, false));
        assert_eq!(stages(1_060_000), (true, true, false));
        assert_eq!(stages(1_089_999), (true, true, false));
        assert_eq!(stages(1_090_000), (true, true, true));
        assert_eq!(stages(u64::MAX), (true, true, true));
        assert_eq!(
            TokenLife::from_now(u64::MAX, 0).lifetime,
            MAX_NODE_TOKEN_SECONDS
        );
        assert_eq!(TokenLife::from_now(9, u64::MAX).seconds_left(u64::MAX), 9);
    }
}
