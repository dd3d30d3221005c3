//! Seen requests as bytes, so that the memory of them outlives the daemon.
//!
//! A journal is a sequence of slots of [`SeenRecord::BYTES`] bytes and nothing else. The first is [`JOURNAL_START`], so that an emptied file is
//! not taken for a journal without records; older versions wrote none. The others are records:
//!
//! ```text
//! 0      4                 36           52        60        64
//! | MSN1 | caller's key    | request id | expires | CRC-32  |     integers are little endian
//! ```
//!
//! A crash may leave less than a slot at the end: that was never forced to disk, so its request has changed nothing. Every other slot that
//! is no record was one, and is counted as damaged.

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
    /// The request.
    pub request: Uuid,
    /// Up to and including this instant it is remembered.
    pub expires: Millis,
}

/// What a journal held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodedJournal {
    /// The whole records, in their order.
    pub records: Vec<SeenRecord>,
    /// Where the last whole record ends: cut the file here before appending.
    pub valid_len: usize,
    /// Whole slots that are no records any more.
    pub damaged: usize,
    /// Whether the bytes begin as a journal does, of this version or of an older one.
    pub has_start: bool,
}

impl SeenRecord {
    /// The size of a record.
    pub const BYTES: usize = 64;

    /// The record as bytes.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = Vec::with_capacity(Self::BYTES);
        bytes.extend_from_slice(&RECORD_MAGIC);
        bytes.extend_from_slice(&self.caller);
        bytes.extend_from_slice(self.request.as_bytes());
        bytes.extend_from_slice(&self.expires.to_le_bytes());
        bytes.extend_from_slice(&crc32(&bytes).to_le_bytes());
        let mut record = [0; Self::BYTES];
        record.copy_from_slice(&bytes);
        record
    }

    /// The record, or `None` if the bytes are not one.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let (content, sum) = bytes.split_last_chunk::<4>()?;
        if crc32(content) != u32::from_le_bytes(*sum) {
            return None;
        }
        let (magic, rest) = content.split_first_chunk::<4>()?;
        let (caller, rest) = rest.split_first_chunk::<32>()?;
        let (request, rest) = rest.split_first_chunk::<16>()?;
        let expires = Millis::from_le_bytes(*rest.first_chunk()?);
        let record = Self {
            caller: *caller,
            request: Uuid::from_bytes(*request),
            expires,
        };
        (*magic == RECORD_MAGIC).then_some(record)
    }

    /// Every whole record of a journal.
    pub fn decode_all(journal: &[u8]) -> DecodedJournal {
        let mut decoded = DecodedJournal {
            records: Vec::new(),
            valid_len: 0,
            damaged: 0,
            has_start: false,
        };
        let (slots, _torn) = journal.as_chunks::<{ Self::BYTES }>();
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

/// CRC-32 of IEEE 802.3, as in gzip: reflected polynomial 0xEDB88320.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            if crc & 1 == 0 {
                crc >> 1
            } else {
                (crc >> 1) ^ 0xEDB8_8320
            }
        })
    })
}
