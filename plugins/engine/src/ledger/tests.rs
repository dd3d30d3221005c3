//! The ledger keeps each owed refresh over crashes until the refresh is made.

use std::collections::{BTreeMap, BTreeSet};

use muster_system::StateDir;
use proptest::prelude::*;

use super::expiry::{MISSING_TARGET_TTL_SECS, read_expired};
use super::journal::{self, LedgerRecord};
use super::{JOURNAL_FILE, OwedRefresh, RefreshCertainty, RefreshLedger, SourceChange};

fn directory() -> (tempfile::TempDir, StateDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let state = StateDir::open(directory.path()).expect("a state directory");
    (directory, state)
}

fn change(run: &str) -> SourceChange {
    let (source, plan) = ("File[a]".to_owned(), "plan".to_owned());
    SourceChange { run: run.to_owned(), source, plan, time: 100, ..SourceChange::default() }
}

fn targets(names: &[&str]) -> Vec<(String, String)> {
    let target = |name: &&str| ((*name).to_owned(), "definition".to_owned());
    names.iter().map(target).collect()
}

#[test]
fn owed_refresh_survives_restarts_until_it_is_made() {
    let (_directory, state) = directory();
    let mut ledger = RefreshLedger::open(&state).expect("opens");
    let intent =
        ledger.record_intent(&change("run-1"), &targets(&["Exec[x]", "Exec[y]"])).expect("intends");
    drop(ledger);
    let mut ledger = RefreshLedger::open(&state).expect("opens again");
    let uncertain = ledger.uncertain_from("File[a]");
    assert_eq!(uncertain.len(), 2, "the intent must be on disk before the change");
    assert!(!ledger.is_refresh_owed("Exec[x]"));
    ledger.mark_change_made(&intent).expect("made");
    drop(ledger);
    let mut ledger = RefreshLedger::open(&state).expect("opens");
    assert!(ledger.is_refresh_owed("Exec[x]") && ledger.is_refresh_owed("Exec[y]"));
    ledger.begin_refresh("Exec[x]").expect("begins");
    ledger.mark_refreshed("Exec[x]").expect("pays");
    ledger.record_reason("Exec[y]", "noop").expect("explains");
    drop(ledger);
    let ledger = RefreshLedger::open(&state).expect("opens");
    let left: Vec<_> = ledger
        .owed_refreshes()
        .map(|debt| (debt.target.as_str(), debt.reason.as_deref()))
        .collect();
    assert_eq!(left, [("Exec[y]", Some("noop"))]);
}

#[test]
fn torn_line_is_reported_and_settles_no_refresh() {
    let (_directory, state) = directory();
    let mut ledger = RefreshLedger::open(&state).expect("opens");
    let intent = ledger.record_intent(&change("r"), &targets(&["Exec[x]"])).expect("intends");
    ledger.mark_change_made(&intent).expect("made");
    ledger.mark_refreshed("Exec[x]").expect("pays");
    let whole = state.read_file(JOURNAL_FILE, 1 << 20).expect("reads").expect("is there");
    let last =
        whole.trim_ascii_end().rsplit(|byte| *byte == b'\n').next().expect("a line").len() + 1;
    for cut in 1..=last {
        let torn = whole.get(..whole.len() - cut).expect("a prefix");
        state.replace_file(JOURNAL_FILE, torn).expect("writes");
        let ledger = RefreshLedger::open(&state).expect("opens");
        assert!(ledger.is_refresh_owed("Exec[x]"), "with {cut} bytes cut off");
        assert_eq!(ledger.warnings().is_empty(), cut == last);
    }
}

fn debt(id: u64) -> OwedRefresh {
    OwedRefresh {
        id,
        run: "run".to_owned(),
        source: format!("File[{id}]"),
        target: format!("Exec[{}]", id % 3),
        certainty: RefreshCertainty::Uncertain,
        plan: "p".to_owned(),
        target_definition: "d".to_owned(),
        since: 7,
        reason: None,
        attempts: 0,
        source_before: BTreeMap::new(),
        source_reverted: false,
        target_changed: false,
        missing_since: None,
    }
}

#[test]
fn refresh_expires_30_days_after_its_target_left_not_after_the_change() {
    let (directory, state) = directory();
    let mut ledger = RefreshLedger::open(&state).expect("opens");
    let targets = targets(&["Exec[x]", "Exec[y]"]);
    let intent = ledger.record_intent(&change("run-1"), &targets).expect("intends");
    ledger.mark_change_made(&intent).expect("made");
    let missing = BTreeSet::from(["Exec[x]".to_owned()]);
    let expire = |now: i64, missing: &BTreeSet<String>| {
        let mut ledger = RefreshLedger::open(&state).expect("opens");
        ledger.expire_missing(now, missing).expect("expires").len()
    };
    let left_at = 2 * MISSING_TARGET_TTL_SECS;
    assert_eq!(expire(left_at, &missing), 0, "the change is old, but the target has just left");
    assert_eq!(expire(left_at + MISSING_TARGET_TTL_SECS, &missing), 0);
    // It returns for one run, so the time starts again.
    assert_eq!(expire(left_at + MISSING_TARGET_TTL_SECS + 1, &BTreeSet::new()), 0);
    let left_again = left_at + MISSING_TARGET_TTL_SECS + 2;
    assert_eq!(expire(left_again, &missing), 0);
    assert_eq!(expire(left_again + MISSING_TARGET_TTL_SECS, &missing), 0);
    assert_eq!(expire(left_again + MISSING_TARGET_TTL_SECS + 1, &missing), 1);
    let expired = read_expired(directory.path()).expect("reads");
    assert_eq!(expired.len(), 1);
    let first = expired.first().expect("one");
    assert_eq!((first.target.as_str(), first.run.as_str(), first.since), ("Exec[x]", "run-1", 100));
    let left = RefreshLedger::read_owed(&state).expect("reads");
    assert_eq!(left.iter().map(|owed| owed.target.as_str()).collect::<Vec<_>>(), ["Exec[y]"]);
}

fn records() -> impl Strategy<Value = Vec<LedgerRecord>> {
    let ids = || prop::collection::btree_set(1_u64..6, 0..4);
    let record = prop_oneof![
        (1_u64..6).prop_map(|id| LedgerRecord::Owed { refresh: debt(id) }),
        ids().prop_map(|ids| LedgerRecord::Confirmed { ids }),
        ids().prop_map(|ids| LedgerRecord::Begun { ids }),
        ids().prop_map(|ids| LedgerRecord::Settled { ids }),
        (ids(), any::<bool>())
            .prop_map(|(ids, is_reverted)| LedgerRecord::Reverted { ids, is_reverted }),
        (ids(), any::<bool>())
            .prop_map(|(ids, is_changed)| LedgerRecord::Redefined { ids, is_changed }),
        (ids(), any::<Option<i64>>()).prop_map(|(ids, since)| LedgerRecord::Missing { ids, since }),
        (ids(), "\\PC{0,10}").prop_map(|(ids, reason)| LedgerRecord::Explained { ids, reason }),
    ];
    prop::collection::vec(record, 0..20)
}

proptest! {
    /// A complete journal reads back unchanged; a journal cut at any byte reads back as a prefix of its records.
    #[test]
    fn truncated_journal_reads_back_as_a_prefix(records in records(), cut in 0.0_f64..1.0) {
        let content: Vec<u8> = records.iter().flat_map(|record| record.to_line().unwrap()).collect();
        let (read, warnings) = journal::parse_journal(&content);
        prop_assert_eq!(&read, &records);
        prop_assert!(warnings.is_empty());
        #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "any place will do")]
        let torn = content.get(..(content.len() as f64 * cut) as usize).expect("a prefix");
        let (read, _) = journal::parse_journal(torn);
        prop_assert!(records.starts_with(&read));
        let mut debts = BTreeMap::new();
        for record in read {
            record.apply_to(&mut debts);
        }
        prop_assert!(debts.len() <= 5);
    }

    #[test]
    fn parsing_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = journal::parse_journal(&bytes);
    }
}
