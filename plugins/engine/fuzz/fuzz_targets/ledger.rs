//! The refresh ledger as bytes: whole lines are read, written as they were, and everything else is told.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use muster_engine::ledger::journal::{Record, read};

fuzz_target!(|bytes: &[u8]| {
    let (records, warnings) = read(bytes);
    let lines = bytes.split_inclusive(|byte| *byte == b'\n').count();
    assert_eq!(records.len() + warnings.len(), lines);
    let mut debts = BTreeMap::new();
    for record in records {
        let line = record.line();
        assert_eq!(Record::parse(line.trim_ascii_end()).as_ref(), Some(&record));
        record.apply(&mut debts);
    }
});
