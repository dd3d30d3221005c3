//! The slots of a node: which of its keys in the bucket are in use.

use std::sync::{Arc, Mutex, PoisonError};

use muster_api::wire::stores::PERMIT_SLOTS;

/// Which slots of this node are in use. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Slots(Arc<Mutex<[bool; PERMIT_SLOTS as usize]>>);

/// A slot in use; free again when the last clone is dropped.
#[derive(Debug, Clone)]
pub(crate) struct Slot(Arc<Used>);

#[derive(Debug)]
struct Used {
    slots: Slots,
    index: usize,
}

impl Slots {
    /// A free slot; `None` when all are in use.
    pub(crate) fn take(&self) -> Option<Slot> {
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let index = used.iter().position(|used| !used)?;
        if let Some(used) = used.get_mut(index) {
            *used = true;
        }
        let slots = self.clone();
        Some(Slot(Arc::new(Used { slots, index })))
    }
}

impl Slot {
    /// Its number, from 1.
    pub(crate) fn number(&self) -> u8 {
        u8::try_from(self.0.index + 1).unwrap_or(u8::MAX)
    }
}

impl Drop for Used {
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
    fn a_slot_is_free_again_when_its_last_clone_is_dropped() {
        let slots = Slots::default();
        let mut taken: Vec<Slot> = (0..PERMIT_SLOTS).filter_map(|_| slots.take()).collect();
        let numbers: Vec<u8> = taken.iter().map(Slot::number).collect();
        assert_eq!(numbers, (1..=PERMIT_SLOTS).collect::<Vec<_>>());
        assert!(slots.take().is_none());
        let clone = taken.remove(1);
        let last = clone.clone();
        drop(clone);
        assert!(slots.take().is_none());
        drop(last);
        assert_eq!(slots.take().unwrap().number(), 2);
    }
}
