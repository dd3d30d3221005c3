//! The byte format of the replay journal, which keeps seen requests across daemon restarts.
//!
//! A journal is a sequence of slots of [`SeenRecord::BYTES`] bytes. The first is [`JOURNAL_START`], which distinguishes a journal
//! without records from a truncated file; older versions wrote no start slot. The others are records:
//!
//! ```text
//! 0      4                 36           52        60        64
//! | MSN1 | caller's key    | request id | expires | CRC-32  |     integers are little endian
//! ```
//!
//! A crash may leave a partial slot at the end. It was never synced to disk, so its request was not started. Every other invalid
//! slot is counted as damaged.

use uuid::Uuid;

use crate::Millis;

const RECORD_MAGIC: [u8; 4] = *b"MSN1";

/// The first slot of a journal.
pub const JOURNAL_START: [u8; SeenRecord::BYTES] =
    *b"MSJ1 seen requests of a muster node, records of 64 bytes follow\n";

/// One seen request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SeenRecord {
    /// The caller's public key.
    pub caller: [u8; 32],
    /// The request id.
    pub request: Uuid,
    /// The last instant at which the request must be remembered.
    pub expires: Millis,
}

/// The decoded content of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodedJournal {
    /// The valid records, in order.
    pub records: Vec<SeenRecord>,
    /// End offset of the last valid slot. Truncate the file to this length before appending.
    pub valid_len: usize,
    /// Number of invalid whole slots.
    pub damaged: usize,
    /// Whether the bytes begin like a journal of this or an older version.
    pub has_start: bool,
}

impl SeenRecord {
    /// Size of a record in bytes.
    pub const BYTES: usize = 64;

    /// Encodes the record.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = Vec::with_capacity(Self::BYTES);
        bytes.extend_from_slice(&RECORD_MAGIC);
        bytes.extend_from_slice(&self.caller);
        bytes.extend_from_slice(self.request.as_bytes());
        bytes.extend_from_slice(&self.expires.to_le_bytes());
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
        let mut record = [0; Self::BYTES];
        record.copy_from_slice(&bytes);
        record
    }

    /// Decodes a record; `None` if it is invalid.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let (content, checksum) = bytes.split_last_chunk::<4>()?;
        if crc32fast::hash(content) != u32::from_le_bytes(*checksum) {
            return None;
        }
        let (magic, rest) = content.split_first_chunk::<4>()?;
        let (caller, rest) = rest.split_first_chunk::<32>()?;
        let (request, rest) = rest.split_first_chunk::<16>()?;
        let expires = Millis::from_le_bytes(*rest.first_chunk()?);
        let record = Self { caller: *caller, request: Uuid::from_bytes(*request), expires };
        (*magic == RECORD_MAGIC).then_some(record)
    }

    /// Decodes all records of a journal.
    pub fn decode_all(journal: &[u8]) -> DecodedJournal {
        let mut decoded =
            DecodedJournal { records: Vec::new(), valid_len: 0, damaged: 0, has_start: false };
        let (slots, _remainder) = journal.as_chunks::<{ Self::BYTES }>();
        for (index, slot) in slots.iter().enumerate() {
            let is_start = index == 0 && *slot == JOURNAL_START;
            let record = Self::decode(slot);
            decoded.has_start |= is_start || (index == 0 && record.is_some());
            if is_start || record.is_some() {
                decoded.valid_len = (index + 1) * Self::BYTES;
            } else {
                decoded.damaged += 1;
            }
            decoded.records.extend(record);
        }
        decoded
    }
}
