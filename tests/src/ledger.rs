//! Changes the refresh ledger of a test's machine as time would.

use std::fs;
use std::path::Path;

use muster_engine::ledger::JOURNAL_FILE;
use muster_engine::ledger::journal::{LedgerRecord, parse_journal};

/// Moves the time since which targets are missing from the catalog into the past.
pub fn age_absence(state: &Path, seconds: i64) {
    let path = state.join(JOURNAL_FILE);
    let (records, damage) = parse_journal(&fs::read(&path).unwrap());
    assert_eq!(damage, Vec::<String>::new());
    let aged = records.into_iter().map(|record| match record {
        LedgerRecord::Owed { mut refresh } => {
            refresh.missing_since = refresh.missing_since.map(|since| since - seconds);
            LedgerRecord::Owed { refresh }
        }
        LedgerRecord::Missing { ids, since } => {
            LedgerRecord::Missing { ids, since: since.map(|since| since - seconds) }
        }
        record => record,
    });
    fs::write(&path, aged.flat_map(|record| record.to_line()).collect::<Vec<u8>>()).unwrap();
}
