//! How much memory the index may take, and estimates of what its parts take.
//!
//! A record of 64 KiB takes up to 4 MiB here if it has many short names, so a thief who can sign nodes could use up all memory with a few hundred names.
//! The estimates are sums of blocks as glibc allocates them.

use muster_filter::state::{MapField, NodeFacts};
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::limits::MAX_NAME_BYTES;
use muster_wire::node_record::NodeContent;

/// Memory that an index may take, by default, in MiB.
pub(crate) const DEFAULT_MEMORY_MIB: u32 = 1024;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// Bytes before the content of each block.
const BLOCK_HEADER_BYTES: usize = 8;
const MIN_BLOCK_BYTES: usize = 32;
/// The counters before the content of a shared text or list.
const SHARE_COUNT_BYTES: usize = 16;
/// A bitmap with its first container.
pub(crate) const BITMAP_BYTES: usize = block_bytes(4 * 32) + MIN_BLOCK_BYTES;
/// One node in a bitmap: its arrays have space for up to twice as many numbers of two bytes.
pub(crate) const BITMAP_NODE_BYTES: usize = 4;
/// A value in the list of the values of one node.
pub(crate) const STORED_FACT_BYTES: usize = 8;
/// What is known of a node besides its name, facts and lists.
const NODE_BYTES: usize = slot_bytes(400) + 4 * MIN_BLOCK_BYTES;

/// The block with a content of this length.
const fn block_bytes(content: usize) -> usize {
    let bytes = (content + BLOCK_HEADER_BYTES).next_multiple_of(16);
    if bytes < MIN_BLOCK_BYTES { MIN_BLOCK_BYTES } else { bytes }
}

/// An entry of this size in a vector or hash table, which are between half full and full.
const fn slot_bytes(size: usize) -> usize {
    size + size / 2 + 1
}

/// A node without its facts and lists. Its name is in the sorted table, too.
pub(crate) fn node_bytes(name: &Identity) -> usize {
    NODE_BYTES + 2 * block_bytes(name.as_str().len())
}

/// A name in an index without its nodes: the entry in the table, the name and the bitmap.
pub(crate) fn index_entry_bytes(name: &str) -> usize {
    slot_bytes(48) + block_bytes(name.len()) + BITMAP_BYTES
}

/// A list of names that nodes share.
pub(crate) fn list_bytes(list: &[String]) -> usize {
    let names: usize = list.iter().map(|name| size_of::<String>() + block_bytes(name.len())).sum();
    slot_bytes(16) + block_bytes(SHARE_COUNT_BYTES) + names
}

/// A name of a fact: its entries in two tables, and the table of its first values.
pub(crate) fn fact_name_bytes(name: &str) -> usize {
    slot_bytes(24) + slot_bytes(64) + block_bytes(SHARE_COUNT_BYTES + name.len()) + block_bytes(120)
}

/// A distinct value of a fact without its nodes: its entries in two tables, and its text.
pub(crate) fn fact_value_bytes(text: &str) -> usize {
    slot_bytes(24) + slot_bytes(48) + block_bytes(SHARE_COUNT_BYTES + text.len())
}

/// The most that a content can add: as much as it does if no other node has any of its names and values.
pub(crate) fn content_bytes(content: &NodeContent) -> usize {
    let classes = content.classes.as_deref().unwrap_or_default().iter().map(String::as_str);
    let agents = content.agents.keys().map(String::as_str);
    let collectives = content.collectives.iter().map(SubjectName::as_str);
    let in_list = |name: &str| size_of::<String>() + block_bytes(name.len());
    let indexed = |name| index_entry_bytes(name) + BITMAP_NODE_BYTES + in_list(name);
    let names: usize = classes.chain(agents).chain(collectives).map(indexed).sum();
    let versions: usize = content.agents.values().map(|version| in_list(version)).sum();
    let maps = MapField::ALL.into_iter().filter_map(|field| content.map(field));
    let facts = maps.flat_map(NodeFacts::iter);
    let fact = |(name, value): (&String, &serde_json::Value)| {
        fact_name_bytes(name) + fact_value_bytes(&value.to_string()) + STORED_FACT_BYTES
    };
    let node = NODE_BYTES + 2 * block_bytes(MAX_NAME_BYTES) + block_bytes(content.version.len());
    node + 4 * list_bytes(&[]) + names + versions + facts.map(fact).sum::<usize>()
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct MemoryLimit(usize);

/// Why the content of a record is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "its record adds {} KiB to the {} MiB of memory that all records take; with plugins.directory.memory_mib = {} at most {} KiB are accepted",
    .added / KIB, .total / MIB, .limit / MIB, .share / KIB
)]
pub(crate) struct MemoryRefusal {
    added: usize,
    total: usize,
    limit: usize,
    share: usize,
}

impl Default for MemoryLimit {
    fn default() -> Self {
        Self::from_mib(DEFAULT_MEMORY_MIB)
    }
}

impl MemoryLimit {
    pub(crate) fn from_mib(mib: u32) -> Self {
        Self((mib as usize).saturating_mul(MIB))
    }

    pub(crate) fn permits(self, bytes: usize) -> bool {
        bytes <= self.0
    }

    /// Checks a record that adds bytes to an index, which then has this number of nodes. Beyond the limit a node may add its share of what is left up to
    /// twice the limit: so that is never exceeded, and large records of some leave space for small ones of all.
    pub(crate) fn check(
        self,
        total: usize,
        added: usize,
        nodes: usize,
    ) -> Result<(), MemoryRefusal> {
        let share = self.0.saturating_mul(2).saturating_sub(total) / nodes.max(1);
        if added <= share || self.permits(total.saturating_add(added)) {
            return Ok(());
        }
        Err(MemoryRefusal { added, total, limit: self.0, share })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_any_sizes_never_exceed_twice_the_limit_and_leave_space_for_small_ones() {
        let limit = MemoryLimit(1 << 30);
        for size in [1 << 12, 100 << 10, 1 << 20, 4 << 20] {
            let (mut total, mut taken) = (0, 0);
            for node in 1..=20_000 {
                // The largest record that is still taken, of at most this size.
                let share = (2 * limit.0 - total) / node;
                let added = if limit.permits(total + size) { size } else { size.min(share) };
                assert_eq!(limit.check(total, added, node), Ok(()));
                total += added;
                taken += 1;
            }
            assert!(taken == 20_000 && total <= 2 * limit.0, "{size}: {total}");
            assert!(limit.check(total, 4 << 20, 20_001).is_err() || size == 1 << 12, "{size}");
            // A node that changes without growing is always taken.
            assert_eq!(limit.check(total, 0, 20_001), Ok(()));
        }
    }
}
