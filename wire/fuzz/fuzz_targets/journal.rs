//! The journal of seen requests.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_wire::fresh::SeenRecord;

fuzz_target!(|bytes: &[u8]| {
    let read = SeenRecord::decode_all(bytes);
    assert!(read.valid_len <= bytes.len());
    let written: Vec<u8> = read.records.iter().flat_map(SeenRecord::encode).collect();
    assert_eq!(SeenRecord::decode_all(&written).records, read.records);
});
