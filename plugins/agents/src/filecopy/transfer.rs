//! What is known of an unfinished copy: its record, and the map of its parts. Pure functions of values.

use muster_api::base::encode_hex;
use muster_contract::filecopy::{FilecopyBeginInput, MAX_MISSING_RANGES};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::filecopy::attributes::DesiredAttributes;

/// Bytes of the digest that are the handle of a copy.
const HANDLE_BYTES: usize = 12;
/// The byte in the map for a part that was written.
pub(crate) const WRITTEN: u8 = 1;

/// The record of an unfinished copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TransferRecord {
    pub(crate) transfer: String,
    /// Only this caller may continue it.
    pub(crate) caller: String,
    /// The target, with links resolved.
    pub(crate) path: String,
    pub(crate) size: u64,
    pub(crate) sha256: String,
    pub(crate) chunk_bytes: u64,
    pub(crate) attributes: DesiredAttributes,
}

impl TransferRecord {
    /// The record of this copy. The same caller, target and content give the same handle, so that a later call continues the copy.
    pub(crate) fn new(
        caller: &str,
        path: String,
        input: &FilecopyBeginInput,
        attributes: DesiredAttributes,
    ) -> Self {
        let FilecopyBeginInput { size, sha256, chunk_bytes, .. } = input;
        let key = format!("{caller}\0{path}\0{size}\0{sha256}\0{chunk_bytes}");
        let digest = Sha256::digest(key);
        let handle = digest.get(..HANDLE_BYTES).unwrap_or_default();
        Self {
            transfer: encode_hex(handle),
            caller: caller.to_owned(),
            path,
            size: *size,
            sha256: sha256.clone(),
            chunk_bytes: *chunk_bytes,
            attributes,
        }
    }

    /// The name of the file with the parts, in the directory of the target.
    pub(crate) fn part_name(&self) -> String {
        format!(".muster-{}.part", self.transfer)
    }

    /// Number of parts; none for an empty file.
    pub(crate) fn chunk_count(&self) -> u64 {
        self.size.div_ceil(self.chunk_bytes.max(1))
    }

    /// Start and length of a part; `None` if there is no such part.
    pub(crate) fn chunk_range(&self, index: u64) -> Option<(u64, u64)> {
        let start = index.checked_mul(self.chunk_bytes)?;
        (start < self.size).then(|| (start, self.chunk_bytes.min(self.size - start)))
    }
}

/// Number of missing parts in a map, and their ranges. If there are too many ranges, the last one covers all others.
pub(crate) fn missing_chunks(map: &[u8]) -> (u64, Vec<(u64, u64)>) {
    let (mut count, mut ranges) = (0, Vec::<(u64, u64)>::new());
    let is_missing = |(_, byte): &(u64, &u8)| **byte != WRITTEN;
    for (index, _) in (0..).zip(map).filter(is_missing) {
        count += 1;
        let is_full = ranges.len() >= MAX_MISSING_RANGES;
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == index || is_full => *last = index,
            _ => ranges.push((index, index)),
        }
    }
    (count, ranges)
}

#[cfg(test)]
mod tests {
    use muster_contract::filecopy::{FilecopyBeginInput, MAX_MISSING_RANGES};

    use super::{TransferRecord, WRITTEN, missing_chunks};
    use crate::filecopy::attributes::DesiredAttributes;

    fn record(size: u64) -> TransferRecord {
        let input = FilecopyBeginInput { size, chunk_bytes: 10, ..FilecopyBeginInput::default() };
        TransferRecord::new("rip", "/srv/x".to_owned(), &input, DesiredAttributes::default())
    }

    #[test]
    fn parts_cover_the_file_exactly() {
        for (size, parts) in [
            (0, vec![]),
            (1, vec![(0, 1)]),
            (20, vec![(0, 10), (10, 10)]),
            (21, vec![(0, 10), (10, 10), (20, 1)]),
        ] {
            let record = record(size);
            let found: Vec<_> = (0..5).filter_map(|index| record.chunk_range(index)).collect();
            assert_eq!((found.len() as u64, found), (record.chunk_count(), parts), "{size}");
            assert_eq!(record.chunk_range(u64::MAX), None);
        }
        assert_ne!(record(1).transfer, record(2).transfer);
        assert_eq!(record(1).transfer.len(), 24);
    }

    #[test]
    fn missing_parts_are_ranges() {
        assert_eq!(missing_chunks(&[]), (0, vec![]));
        assert_eq!(missing_chunks(&[WRITTEN; 3]), (0, vec![]));
        assert_eq!(missing_chunks(&[0, 0, WRITTEN, 0]), (3, vec![(0, 1), (3, 3)]));
        let holes: Vec<u8> = (0..4096).map(|n| u8::from(n % 2 == 0)).collect();
        let (count, ranges) = missing_chunks(&holes);
        assert_eq!((count, ranges.len()), (2048, MAX_MISSING_RANGES));
        assert_eq!(ranges.last().unwrap().1, 4095);
    }
}
