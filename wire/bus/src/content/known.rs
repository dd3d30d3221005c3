//! What this process has stored, or found in the store, a short time ago.

use std::collections::HashMap;
use std::time::Duration;

use muster_wire::catalog::content::ContentKey;
use tokio::time::Instant;

/// How long a key is remembered. Another process may delete it after a day without a write.
const REMEMBERED_TIME: Duration = Duration::from_hours(1);
/// Most remembered keys: 6 MiB.
const MAX_KEYS: usize = 65_536;

/// The keys that are in the store.
#[derive(Debug, Default)]
pub(super) struct KnownContent {
    found: HashMap<ContentKey, Instant>,
}

impl KnownContent {
    /// Remembers a key. If there are too many, all others are forgotten: the store is asked for them again.
    pub(super) fn remember(&mut self, key: ContentKey, now: Instant) {
        if self.found.len() >= MAX_KEYS {
            self.found.clear();
        }
        self.found.insert(key, now);
    }

    /// Whether the key is in the store.
    pub(super) fn has(&self, key: ContentKey, now: Instant) -> bool {
        let found = self.found.get(&key);
        found.is_some_and(|found| now.saturating_duration_since(*found) < REMEMBERED_TIME)
    }
}

#[cfg(test)]
mod tests {
    use muster_wire::catalog::content::ContentAddress;

    use super::*;

    #[test]
    fn keys_are_remembered_for_an_hour() {
        let key = ContentKey::File(ContentAddress::of(b""));
        let (mut known, now) = (KnownContent::default(), Instant::now());
        known.remember(key, now);
        assert!(!known.has(ContentKey::Chunk(ContentAddress::of(b"")), now));
        assert!(known.has(key, now + REMEMBERED_TIME - Duration::from_secs(1)));
        assert!(!known.has(key, now + REMEMBERED_TIME));
    }

    #[test]
    fn number_of_keys_is_bounded() {
        let (mut known, now) = (KnownContent::default(), Instant::now());
        let key = |number: usize| ContentKey::Chunk(ContentAddress::of(&number.to_be_bytes()));
        (0..=MAX_KEYS).for_each(|number| known.remember(key(number), now));
        assert!(known.found.len() <= MAX_KEYS);
        assert!(known.has(key(MAX_KEYS), now));
    }
}
