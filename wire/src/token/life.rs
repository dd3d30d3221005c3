//! How long a node's token lives, and when it is renewed: once a third of its life is over, so that two thirds remain for whatever keeps
//! the renewal from reaching the node.

use serde::{Deserialize, Serialize};

use super::Seconds;
use super::claims::{Claims, User};
use crate::Millis;
use crate::limits::NODE_TOKEN_SECONDS;

/// The life of a token that ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenLife {
    /// When it ends, in seconds since the epoch.
    pub expires: Seconds,
    /// How long it lives in all, in seconds.
    pub lifetime: Seconds,
}

impl TokenLife {
    /// The life of a token that is issued now: at most [`NODE_TOKEN_SECONDS`].
    pub fn beginning(lifetime: Seconds, now: Millis) -> Self {
        let lifetime = lifetime.min(NODE_TOKEN_SECONDS);
        Self {
            expires: (now / 1000).saturating_add(lifetime),
            lifetime,
        }
    }

    /// The life that a token states; `None` for one that never ends.
    pub fn of_claims(claims: &Claims<User>) -> Option<Self> {
        (claims.exp != 0).then(|| Self {
            expires: claims.exp,
            lifetime: claims.exp.saturating_sub(claims.iat),
        })
    }

    /// How long it still lives, in seconds.
    pub fn left(&self, now: Millis) -> Seconds {
        self.expires.saturating_sub(now / 1000)
    }

    /// Whether a third of it is over.
    pub fn is_due(&self, now: Millis) -> bool {
        self.left(now) <= self.lifetime / 3 * 2
    }

    /// Whether two thirds of it are over, so that a renewal has failed for long.
    pub fn is_late(&self, now: Millis) -> bool {
        self.left(now) <= self.lifetime / 3
    }

    /// Whether it is over.
    pub fn is_over(&self, now: Millis) -> bool {
        self.left(now) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::{NODE_TOKEN_SECONDS, TokenLife};

    #[test]
    fn a_token_is_renewed_after_a_third_and_late_after_two() {
        let life = TokenLife::beginning(90, 1_000_999);
        assert_eq!(life.expires, 1_090);
        let stages = |now: u64| (life.is_due(now), life.is_late(now), life.is_over(now));
        assert_eq!(stages(1_029_999), (false, false, false));
        assert_eq!(stages(1_030_000), (true, false, false));
        assert_eq!(stages(1_059_999), (true, false, false));
        assert_eq!(stages(1_060_000), (true, true, false));
        assert_eq!(stages(1_089_999), (true, true, false));
        assert_eq!(stages(1_090_000), (true, true, true));
        assert_eq!(stages(u64::MAX), (true, true, true));
        assert_eq!(
            TokenLife::beginning(u64::MAX, 0).lifetime,
            NODE_TOKEN_SECONDS
        );
        assert_eq!(TokenLife::beginning(9, u64::MAX).left(u64::MAX), 9);
    }
}
