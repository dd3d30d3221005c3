//! The bytes of the journal: truncated and damaged at every offset.

use muster_wire::fresh::{JOURNAL_START, SeenRecord};
use proptest::prelude::*;
use uuid::Uuid;

fn records(count: u8) -> Vec<SeenRecord> {
    let one = |n| SeenRecord {
        caller: [n; 32],
        request: Uuid::from_u128(u128::from(n) << 64),
        expires: 1_800_000_000_000 + u64::from(n),
    };
    (0..count).map(one).collect()
}

fn bytes(records: &[SeenRecord]) -> Vec<u8> {
    records.iter().flat_map(SeenRecord::encode).collect()
}

#[test]
fn record_has_the_documented_layout() {
    let record = SeenRecord { caller: [0xaa; 32], request: Uuid::from_u128(1), expires: 2 };
    let bytes = record.encode();
    assert_eq!(&bytes[..4], b"MSN1");
    assert_eq!(&bytes[4..36], &[0xaa; 32]);
    assert_eq!((bytes[51], bytes[52]), (1, 2));
    // CRC-32 of the first sixty bytes, computed with zlib.
    assert_eq!(u32::from_le_bytes(bytes[60..].try_into().unwrap()), CRC);
}

/// `zlib.crc32(b"MSN1" + b"\xaa" * 32 + bytes(15) + b"\x01\x02" + bytes(7))`
const CRC: u32 = 0x7007_8d2a;

#[test]
fn truncated_journal_keeps_complete_records() {
    let records = records(4);
    let journal = bytes(&records);
    for cut in 0..=journal.len() {
        let read = SeenRecord::decode_all(&journal[..cut]);
        let whole = cut / SeenRecord::BYTES;
        assert_eq!(read.records, records[..whole]);
        assert_eq!((read.valid_len, read.damaged), (whole * SeenRecord::BYTES, 0));
    }
}

#[test]
fn damaged_byte_loses_and_reports_one_record() {
    let records = records(3);
    for place in 0..3 * SeenRecord::BYTES {
        let mut journal = bytes(&records);
        journal[place] ^= 0x40;
        let read = SeenRecord::decode_all(&journal);
        let hit = place / SeenRecord::BYTES;
        let left: Vec<_> =
            records.iter().enumerate().filter(|(n, _)| *n != hit).map(|(_, r)| *r).collect();
        assert_eq!(read.records, left);
        assert_eq!((read.damaged, read.has_start), (1, hit > 0));
        assert_eq!(read.valid_len, if hit < 2 { 3 } else { 2 } * SeenRecord::BYTES);
    }
}

#[test]
fn empty_journal_has_no_start_and_journal_without_records_has_one() {
    assert!(!SeenRecord::decode_all(&[]).has_start);
    assert!(!SeenRecord::decode_all(&[0; 128]).has_start);
    let read = SeenRecord::decode_all(&JOURNAL_START);
    assert!(read.has_start && read.records.is_empty() && read.damaged == 0);
    let read = SeenRecord::decode_all(&[&JOURNAL_START[..], &bytes(&records(2))].concat());
    assert_eq!((read.records, read.damaged), (records(2), 0));
    // A start record counts only at the beginning.
    let read = SeenRecord::decode_all(&[&bytes(&records(1))[..], &JOURNAL_START].concat());
    assert_eq!((read.has_start, read.damaged), (true, 1));
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_not_panic(journal: Vec<u8>) {
        let read = SeenRecord::decode_all(&journal);
        prop_assert!(read.valid_len <= journal.len());
        prop_assert!(read.records.len() + read.damaged <= journal.len() / SeenRecord::BYTES);
    }
}
