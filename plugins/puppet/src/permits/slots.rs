//! Allocates the key slots of this node in the bucket.

use std::sync::{Arc, Mutex, PoisonError};

use muster_api::wire::stores::MAX_PERMIT_SLOTS;

/// Which slots of this node are in use. Clones share the state.
#[derive(Debug, Clone, Default)]
pub(crate) struct SlotAllocator(Arc<Mutex<[bool; MAX_PERMIT_SLOTS as usize]>>);

/// An allocated slot; freed when the last clone is dropped.
#[derive(Debug, Clone)]
pub(crate) struct AllocatedSlot(Arc<SlotGuard>);

#[derive(Debug)]
struct SlotGuard {
    slots: SlotAllocator,
    index: usize,
}

impl SlotAllocator {
    /// Allocates a free slot; `None` when all are in use.
    pub(crate) fn allocate_slot(&self) -> Option<AllocatedSlot> {
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let index = used.iter().position(|used| !used)?;
        if let Some(used) = used.get_mut(index) {
            *used = true;
        }
        let slots = self.clone();
        Some(AllocatedSlot(Arc::new(SlotGuard { slots, index })))
    }
}

impl AllocatedSlot {
    /// The slot's number, from 1.
    pub(crate) fn number(&self) -> u8 {
        u8::try_from(self.0.index + 1).unwrap_or(u8::MAX)
    }
}

impl Drop for SlotGuard {
    fn drop(&mut self) {
        let mut used = self.slots.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(used) = used.get_mut(self.index) {
            *used = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slot_is_free_after_its_last_clone_is_dropped() {
        let slots = SlotAllocator::default();
        let mut taken: Vec<AllocatedSlot> =
            (0..MAX_PERMIT_SLOTS).filter_map(|_| slots.allocate_slot()).collect();
        let numbers: Vec<u8> = taken.iter().map(AllocatedSlot::number).collect();
        assert_eq!(numbers, (1..=MAX_PERMIT_SLOTS).collect::<Vec<_>>());
        assert!(slots.allocate_slot().is_none());
        let clone = taken.remove(1);
        let last = clone.clone();
        drop(clone);
        assert!(slots.allocate_slot().is_none());
        drop(last);
        assert_eq!(slots.allocate_slot().unwrap().number(), 2);
    }
}
