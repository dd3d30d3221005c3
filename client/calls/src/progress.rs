//! Tracks progress messages of nodes: orders them, drops duplicates and counts losses. A pure function of values.

use std::collections::HashMap;

use muster_wire::identity::Identity;
use muster_wire::progress::{ProgressCounts, ProgressMessage};
use serde_json::Value;

/// Progress of a node while its action runs.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgressUpdate {
    /// The sender.
    pub node: Identity,
    /// Events since the previous update, in order. Empty when the update only reports a loss.
    pub events: Vec<Value>,
    /// Number of messages that were lost before these events.
    pub lost: u64,
    /// Number of events that the node dropped before these, because they exceeded the send rate.
    pub dropped: u64,
}

/// Progress received so far, by node.
#[derive(Debug, Default)]
pub(crate) struct ProgressTracker(HashMap<Identity, ProgressCounts>);

impl ProgressTracker {
    /// Records a progress message. Returns `None` for a duplicate. A node's messages arrive in order because they share one connection; a message
    /// that arrives late was already counted as lost with its successor, and is dropped.
    pub(crate) fn record_progress(&mut self, progress: ProgressMessage) -> Option<ProgressUpdate> {
        let counts = self.0.entry(progress.sender.clone()).or_default();
        // Both numbers come from the node unchecked, up to the maximum of the type, so subtract with overflow checks.
        let lost = progress.seq.checked_sub(counts.messages)?.checked_sub(1)?;
        let dropped = progress.dropped.saturating_sub(counts.dropped);
        *counts = ProgressCounts {
            messages: progress.seq,
            dropped: counts.dropped.max(progress.dropped),
        };
        Some(ProgressUpdate { node: progress.sender, events: progress.events, lost, dropped })
    }

    /// The node has replied with its final counts: returns the messages and events that are missing, if any.
    pub(crate) fn finish_node(
        &mut self,
        node: &Identity,
        reported: ProgressCounts,
    ) -> Option<ProgressUpdate> {
        let counts = self.0.remove(node).unwrap_or_default();
        let lost = reported.messages.saturating_sub(counts.messages);
        let dropped = reported.dropped.saturating_sub(counts.dropped);
        (lost > 0 || dropped > 0).then(|| ProgressUpdate {
            node: node.clone(),
            events: Vec::new(),
            lost,
            dropped,
        })
    }
}

#[cfg(test)]
mod tests {
    use muster_wire::progress::{ProgressCounts, ProgressMessage};
    use serde_json::json;
    use uuid::Uuid;

    use super::{ProgressTracker, ProgressUpdate};

    fn progress(node: &str, seq: u64, dropped: u64) -> ProgressMessage {
        ProgressMessage {
            request: Uuid::now_v7(),
            sender: node.parse().unwrap(),
            agent: "shell".parse().unwrap(),
            action: "run".parse().unwrap(),
            seq,
            events: vec![json!(seq)],
            dropped,
            time: 0,
        }
    }

    fn tale(node: &str, seq: Option<u64>, lost: u64, dropped: u64) -> ProgressUpdate {
        ProgressUpdate {
            node: node.parse().unwrap(),
            events: seq.into_iter().map(|seq| json!(seq)).collect(),
            lost,
            dropped,
        }
    }

    #[test]
    fn messages_count_once_and_gaps_are_reported() {
        let mut telling = ProgressTracker::default();
        assert_eq!(telling.record_progress(progress("a", 1, 0)), Some(tale("a", Some(1), 0, 0)));
        assert_eq!(telling.record_progress(progress("b", 2, 3)), Some(tale("b", Some(2), 1, 3)));
        assert_eq!(telling.record_progress(progress("a", 1, 0)), None);
        assert_eq!(telling.record_progress(progress("a", 4, 5)), Some(tale("a", Some(4), 2, 5)));
        assert_eq!(telling.record_progress(progress("a", 3, 5)), None);
        let said = |messages, dropped| ProgressCounts { messages, dropped };
        assert_eq!(
            telling.finish_node(&"a".parse().unwrap(), said(6, 7)),
            Some(tale("a", None, 2, 2))
        );
        assert_eq!(telling.finish_node(&"b".parse().unwrap(), said(2, 3)), None);
        assert_eq!(
            telling.finish_node(&"c".parse().unwrap(), said(1, 0)),
            Some(tale("c", None, 1, 0))
        );
    }

    #[test]
    fn maximum_sequence_numbers_do_not_overflow() {
        let mut telling = ProgressTracker::default();
        let first = telling.record_progress(progress("web1", u64::MAX, u64::MAX));
        assert_eq!(
            first,
            Some(ProgressUpdate {
                events: vec![json!(u64::MAX)],
                ..tale("web1", None, u64::MAX - 1, u64::MAX)
            })
        );
        for seq in [0, 1, u64::MAX] {
            assert_eq!(telling.record_progress(progress("web1", seq, 0)), None, "{seq}");
        }
        let said = ProgressCounts { messages: 0, dropped: 0 };
        assert_eq!(telling.finish_node(&"web1".parse().unwrap(), said), None);
    }
}
