//! Which nodes still lack which parts of a file, and how much may be in flight. Pure functions of values.

use std::collections::{BTreeMap, BTreeSet};

use muster_contract::filecopy::{FilecopyBeginOutput, MAX_CHUNK_BYTES};
use muster_wire::identity::Identity;
use muster_wire::limits::MAX_REQUEST_BYTES;

/// Part of a request that is not the content, in bytes: token, names of nodes, signature.
const ENVELOPE_BYTES: usize = 48 * 1024;
/// Sizes of parts are multiples of this, in bytes.
const CHUNK_STEP_BYTES: usize = 4096;
/// Maximum number of nodes that receive a file at the same time.
pub(super) const MAX_GROUP_NODES: usize = 32;
/// Maximum bytes of requests in flight to all nodes.
const MAX_IN_FLIGHT_BYTES: u64 = 32 * 1024 * 1024;
/// Maximum number of parts in flight.
const MAX_WINDOW: u64 = 4;

/// The nodes that receive a file.
#[derive(Debug, Default)]
pub(super) struct Receivers(BTreeMap<Identity, Receiver>);

/// A node that receives a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Receiver {
    /// The handle of the copy on the node.
    pub(super) transfer: String,
    /// The target, as the node names it.
    pub(super) path: String,
    /// Ranges of the parts that the node lacked at the start.
    missing: Vec<(u64, u64)>,
    /// Number of these parts.
    pub(super) missing_chunks: u64,
}

impl From<FilecopyBeginOutput> for Receiver {
    fn from(begun: FilecopyBeginOutput) -> Self {
        let FilecopyBeginOutput { path, transfer, missing_chunks, missing, .. } = begun;
        Self { transfer, path, missing, missing_chunks }
    }
}

impl Receivers {
    pub(super) fn insert(&mut self, node: Identity, receiver: Receiver) {
        self.0.insert(node, receiver);
    }

    pub(super) fn remove(&mut self, node: &Identity) -> Option<Receiver> {
        self.0.remove(node)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The first part from `index` on that some node lacks.
    pub(super) fn next_missing(&self, index: u64) -> Option<u64> {
        let ranges = self.0.values().flat_map(|receiver| &receiver.missing);
        ranges.filter(|(_, last)| *last >= index).map(|(first, _)| index.max(*first)).min()
    }

    /// The nodes that lack this part, by the handle of their copy.
    pub(super) fn lacking(&self, index: u64) -> BTreeMap<String, BTreeSet<Identity>> {
        let is_missing = |receiver: &Receiver| {
            receiver.missing.iter().any(|(first, last)| (*first..=*last).contains(&index))
        };
        self.group(|receiver| is_missing(receiver))
    }

    /// All nodes, by the handle of their copy.
    pub(super) fn by_transfer(&self) -> BTreeMap<String, BTreeSet<Identity>> {
        self.group(|_| true)
    }

    fn group(&self, is_wanted: impl Fn(&Receiver) -> bool) -> BTreeMap<String, BTreeSet<Identity>> {
        let mut groups: BTreeMap<String, BTreeSet<Identity>> = BTreeMap::new();
        for (node, receiver) in self.0.iter().filter(|(_, receiver)| is_wanted(receiver)) {
            groups.entry(receiver.transfer.clone()).or_default().insert(node.clone());
        }
        groups
    }
}

/// Size of a part, so that its request fits into a message of the broker.
pub(super) fn chunk_size(max_payload: usize) -> u64 {
    let content = max_payload.min(MAX_REQUEST_BYTES).saturating_sub(ENVELOPE_BYTES) / 4 * 3;
    let whole = (content / CHUNK_STEP_BYTES).max(1) * CHUNK_STEP_BYTES;
    u64::try_from(whole).unwrap_or(MAX_CHUNK_BYTES).min(MAX_CHUNK_BYTES)
}

/// Number of parts that may be in flight to this many nodes.
pub(super) fn window_size(chunk_bytes: u64, nodes: usize) -> usize {
    let nodes = u64::try_from(nodes).unwrap_or(u64::MAX);
    // As base64, the content grows by a third.
    let bytes = (chunk_bytes / 3 * 4).saturating_mul(nodes).max(1);
    usize::try_from((MAX_IN_FLIGHT_BYTES / bytes).clamp(1, MAX_WINDOW)).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use muster_contract::filecopy::FilecopyBeginOutput;

    use super::{Receiver, Receivers, chunk_size, window_size};

    fn receiver(transfer: &str, missing: &[(u64, u64)]) -> Receiver {
        FilecopyBeginOutput {
            transfer: transfer.to_owned(),
            missing: missing.to_vec(),
            ..FilecopyBeginOutput::default()
        }
        .into()
    }

    #[test]
    fn each_part_is_sent_to_the_nodes_that_lack_it() {
        let mut receivers = Receivers::default();
        receivers.insert("a".parse().unwrap(), receiver("t", &[(0, 1), (5, 5)]));
        receivers.insert("b".parse().unwrap(), receiver("t", &[(1, 1)]));
        receivers.insert("c".parse().unwrap(), receiver("u", &[(1, 1)]));
        let mut sent = Vec::new();
        let mut next = receivers.next_missing(0);
        while let Some(index) = next {
            let groups = receivers.lacking(index).into_iter();
            sent.extend(groups.map(|(transfer, nodes)| (index, transfer, nodes.len())));
            next = receivers.next_missing(index + 1);
        }
        let expected = [(0, "t", 1), (1, "t", 2), (1, "u", 1), (5, "t", 1)];
        assert_eq!(
            sent,
            expected.map(|(index, transfer, count)| (index, transfer.to_owned(), count))
        );
    }

    #[test]
    fn sizes_are_bounded() {
        assert_eq!(chunk_size(1024 * 1024), 512 * 1024);
        assert_eq!(chunk_size(usize::MAX), 512 * 1024);
        assert_eq!(chunk_size(64 * 1024), 12 * 1024);
        assert_eq!(chunk_size(0), 4096);
        for (nodes, window) in [(1, 4), (20, 2), (32, 1), (1000, 1)] {
            assert_eq!(window_size(512 * 1024, nodes), window, "{nodes}");
        }
    }
}
