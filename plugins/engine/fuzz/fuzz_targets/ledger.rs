//! The refresh ledger from arbitrary bytes: parsing returns the intact lines and reports the others.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use muster_engine::ledger::journal::{LedgerRecord, parse_journal};

fuzz_target!(|bytes: &[u8]| {
    let (records, warnings) = parse_journal(bytes);
    let lines = bytes.split_inclusive(|byte| *byte == b'\n').count();
    assert_eq!(records.len() + warnings.len(), lines);
    let mut debts = BTreeMap::new();
    for record in records {
        let line = record.to_line().expect("a record that was read");
        assert_eq!(LedgerRecord::parse(line.trim_ascii_end()).as_ref(), Some(&record));
        record.apply_to(&mut debts);
    }
});
