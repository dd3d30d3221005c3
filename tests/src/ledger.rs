//! Changes the refresh ledger of a test's machine as time would.

use std::fs;
use std::path::Path;

use muster_engine::ledger::journal::{LedgerRecord, parse_journal};
use muster_engine::ledger::{JOURNAL_FILE, RefreshCertainty};

/// Removes everything after the first intent, as if the run had died when only that was on disk.
pub fn keep_first_intent(state: &Path) {
    let path = state.join(JOURNAL_FILE);
    let (records, _) = parse_journal(&fs::read(&path).unwrap());
    let is_intent = |record: &LedgerRecord| matches!(record, LedgerRecord::Owed { refresh } if refresh.certainty == RefreshCertainty::Uncertain);
    let intent = records.into_iter().find(is_intent).unwrap();
    fs::write(&path, intent.to_line().unwrap()).unwrap();
}

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
    fs::write(&path, aged.flat_map(|record| record.to_line().unwrap()).collect::<Vec<u8>>())
        .unwrap();
}
