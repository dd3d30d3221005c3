//! A set of nodes by their numbers: one number in place, several as a compressed bitmap.

use roaring::RoaringBitmap;

use crate::memory::{BITMAP_BYTES, BITMAP_NODE_BYTES};

/// The nodes that have one value. Most distinct values of a fleet belong to a single node.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum NodeSet {
    Empty,
    One(u32),
    Many(RoaringBitmap),
}

impl NodeSet {
    pub(crate) fn insert(&mut self, node: u32) {
        match self {
            Self::Empty => *self = Self::One(node),
            Self::One(other) if *other == node => {}
            Self::One(other) => *self = Self::Many([*other, node].into_iter().collect()),
            Self::Many(nodes) => {
                nodes.insert(node);
            }
        }
    }

    pub(crate) fn remove(&mut self, node: u32) {
        match self {
            Self::One(other) if *other == node => *self = Self::Empty,
            Self::Empty | Self::One(_) => {}
            Self::Many(nodes) => {
                nodes.remove(node);
                match (nodes.len(), nodes.min()) {
                    (0, _) => *self = Self::Empty,
                    (1, Some(last)) => *self = Self::One(last),
                    _ => {}
                }
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::Empty
    }

    /// Estimated memory besides the set itself, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let Self::Many(nodes) = self else { return 0 };
        let nodes = usize::try_from(nodes.len()).unwrap_or(usize::MAX);
        BITMAP_BYTES + nodes.saturating_mul(BITMAP_NODE_BYTES)
    }

    pub(crate) fn add_to(&self, all: &mut RoaringBitmap) {
        match self {
            Self::Empty => {}
            Self::One(node) => {
                all.insert(*node);
            }
            Self::Many(nodes) => *all |= nodes,
        }
    }

    pub(crate) fn remove_from(&self, all: &mut RoaringBitmap) {
        match self {
            Self::Empty => {}
            Self::One(node) => {
                all.remove(*node);
            }
            Self::Many(nodes) => *all -= nodes,
        }
    }

    pub(crate) fn intersection_len(&self, other: &RoaringBitmap) -> u64 {
        match self {
            Self::Empty => 0,
            Self::One(node) => u64::from(other.contains(*node)),
            Self::Many(nodes) => nodes.intersection_len(other),
        }
    }
}
