//! What an instance reports to monitoring: the numbers of its nodes, and how fresh they are.

use std::time::Duration;

use tokio::time::Instant;

use crate::liveness::Presence;
use crate::selection::DEFAULT_STALE_SECONDS;
use crate::state::DirectoryHandle;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DirectoryCounts {
    /// Nodes with a record.
    pub nodes: usize,
    /// Those of them that are missing.
    pub missing: usize,
    /// Those of the missing nodes that were not seen for an hour.
    pub stale: usize,
    /// Records that were refused since the start.
    pub refused: u64,
    /// Nodes whose newest record is refused.
    pub problems: usize,
    /// Nodes under whose name two daemons run.
    pub cloned: usize,
    /// Estimated memory of all records, in bytes.
    pub memory_bytes: usize,
    /// Whether the instance has read all records once.
    pub is_ready: bool,
    /// Whether the instance is also connected, so that it sees changes at once.
    pub is_current: bool,
    /// Time for which the instance has received all heartbeats.
    pub listening: Duration,
}

impl DirectoryHandle {
    pub fn counts(&self, now: Instant) -> DirectoryCounts {
        let state = self.read();
        let freshness = state.freshness(now);
        let limit = Duration::from_secs(DEFAULT_STALE_SECONDS);
        let mut counts = DirectoryCounts {
            nodes: state.table.len(),
            refused: state.refused,
            problems: state.table.problem_count(),
            memory_bytes: state.table.memory_bytes(),
            is_ready: freshness.ready,
            is_current: freshness.current,
            listening: Duration::from_secs(freshness.listening_seconds),
            ..DirectoryCounts::default()
        };
        for node in state.table.iter() {
            counts.missing += usize::from(state.presence(node, now) == Presence::Missing);
            counts.cloned += usize::from(node.liveness.is_cloned(now));
            counts.stale += usize::from(state.is_stale(node, limit, now));
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use muster_wire::identity::Identity;
    use muster_wire::node_record::{NodeContent, NodeRecord};

    use super::*;

    #[test]
    fn silent_nodes_are_missing_and_stale_after_an_hour() {
        let (handle, start) = (DirectoryHandle::default(), Instant::now());
        assert_eq!(handle.counts(start), DirectoryCounts::default());
        let content = NodeContent { heartbeat_seconds: 60, ..NodeContent::default() };
        for name in ["db1.acme.net", "db2.acme.net"] {
            let name = Identity::parse(name).unwrap();
            let record = NodeRecord::new(name, 1, &content, &content).unwrap();
            handle.write().table.store(&record, content.clone(), 1, 2).unwrap();
        }
        handle.write().listening = Some(start);
        handle.write().is_ready = true;
        let seen = Identity::parse("db1.acme.net").unwrap();
        for (seconds, missing, stale) in [(100, 0, 0), (300, 1, 0), (3601, 1, 1)] {
            let now = start + Duration::from_secs(seconds);
            handle.write().table.get_mut(&seen).unwrap().liveness.record_seen(now, 0);
            let counts = handle.counts(now);
            assert_eq!((counts.nodes, counts.missing, counts.stale), (2, missing, stale));
            assert_eq!(counts.listening, Duration::from_secs(seconds));
            assert!(counts.is_ready && counts.is_current);
        }
        handle.write().listening = None;
        let counts = handle.counts(start);
        assert_eq!((counts.missing, counts.is_ready, counts.is_current), (0, true, false));
    }
}
