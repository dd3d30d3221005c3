//! When each node of a fleet last replied to this user, in a small file: names nodes that were there and are not. Until a node reports its own absence
//! nothing else knows it. An unreadable file counts as empty.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use muster_wire::identity::Identity;
use serde::{Deserialize, Serialize};

use crate::cache_file::{read_cache_file, replace_cache_file};

/// Maximum time for which an absent node is remembered: after it, the node was probably retired.
const MAX_ABSENCE: Duration = Duration::from_hours(7 * 24);
/// Maximum number of nodes.
const MAX_NODES: usize = 100_000;
/// Maximum size of the file, in bytes.
const MAX_FILE_BYTES: usize = 32 * 1024 * 1024;

/// Times in seconds since the epoch, by node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastSeenNodes(BTreeMap<Identity, u64>);

impl LastSeenNodes {
    /// Reads the file; empty if there is none, or it is unreadable.
    pub fn load(path: &Path) -> Self {
        let bytes = read_cache_file(path, MAX_FILE_BYTES);
        bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }

    /// Writes the file. Errors are ignored, because it is only a cache.
    pub fn save(&self, path: &Path) {
        if let Ok(bytes) = serde_json::to_vec(self) {
            let _ = replace_cache_file(path, &bytes);
        }
    }

    /// Records that these nodes replied now, and forgets nodes that have been absent for 7 days. Returns the other nodes, with the time since their
    /// last reply.
    pub fn record_replies<'n>(
        &mut self,
        now: u64,
        replied: impl IntoIterator<Item = &'n Identity>,
    ) -> BTreeMap<Identity, Duration> {
        let replied: BTreeSet<&Identity> = replied.into_iter().collect();
        let age = |seen: u64| Duration::from_secs(now.saturating_sub(seen));
        self.0.retain(|_, seen| age(*seen) <= MAX_ABSENCE);
        let absent = self.0.iter().filter(|(node, _)| !replied.contains(node));
        let absent = absent.map(|(node, seen)| (node.clone(), age(*seen))).collect();
        for node in replied {
            if self.0.len() < MAX_NODES || self.0.contains_key(node) {
                self.0.insert(node.clone(), now);
            }
        }
        absent
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use muster_wire::identity::Identity;

    use super::LastSeenNodes;

    const DAY: u64 = 24 * 3600;

    fn nodes(names: &[&str]) -> Vec<Identity> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    #[test]
    fn nodes_that_replied_before_are_absent_for_a_week() {
        let mut seen = LastSeenNodes::default();
        assert!(seen.record_replies(10 * DAY, &nodes(&["a", "b"])).is_empty());
        let absent = seen.record_replies(11 * DAY, &nodes(&["a", "c"]));
        assert_eq!(absent, [("b".parse().unwrap(), Duration::from_secs(DAY))].into());
        let absent = seen.record_replies(18 * DAY, &nodes(&["a", "c"]));
        assert!(absent.is_empty(), "b has been absent for more than a week: {absent:?}");
    }

    #[test]
    fn times_are_kept_in_a_file_and_damage_counts_as_empty() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("fleet/last-seen.json");
        let mut seen = LastSeenNodes::load(&path);
        assert_eq!(seen, LastSeenNodes::default());
        seen.record_replies(DAY, &nodes(&["a"]));
        seen.save(&path);
        assert_eq!(LastSeenNodes::load(&path), seen);
        std::fs::write(&path, "{").unwrap();
        assert_eq!(LastSeenNodes::load(&path), LastSeenNodes::default());
    }
}
