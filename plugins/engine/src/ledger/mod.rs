//! Journal of pending refreshes: a failure, a skip, noop mode or a crash never loses a notification.
//!
//! Before a resource that refreshes others is changed, the refreshes it will cause are written to disk (an *intent*). After the change they are
//! *pending* until the target is refreshed successfully, in this run or a later one. If the run dies after the intent, the entry
//! is *uncertain*: the next evaluation of the source decides whether the change was made.
//!
//! [`journal`] defines the record format. All decisions about pending refreshes are made in this module.

pub mod journal;

use std::collections::{BTreeMap, BTreeSet};

use muster_system::{FileAppender, StateDir, SystemResult};
use serde::{Deserialize, Serialize};

use journal::LedgerRecord;

/// Name of the journal file in the state directory.
pub const JOURNAL_FILE: &str = "refreshes.journal";
/// Maximum size of the journal, in bytes. It is compacted at each start, so only records of the current run are appended.
const MAX_JOURNAL_BYTES: u64 = 64 * 1024 * 1024;

/// Whether a refresh is known to be pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RefreshCertainty {
    /// The run died between intent and outcome.
    Uncertain,
    /// The source was changed.
    Pending,
}

/// One pending refresh.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwedRefresh {
    /// Its id in the ledger.
    pub id: u64,
    /// The run in which the source was changed.
    pub run: String,
    /// The changed resource: `File[/etc/app.conf]`.
    pub source: String,
    /// The resource to refresh: `Exec[reload]`.
    pub target: String,
    /// Whether the change is known to have been made.
    pub certainty: RefreshCertainty,
    /// Digest of the planned change of the source. An uncertain entry is dropped if the same change is still planned.
    pub plan: String,
    /// Digest of the target's desired state at that time.
    pub target_definition: String,
    /// Time of the change, in seconds since the epoch.
    pub since: i64,
    /// Why the refresh has not succeeded yet.
    pub reason: Option<String>,
    /// Number of failed refresh attempts.
    pub attempts: u32,
}

/// The pending refreshes of one node, stored on disk.
#[derive(Debug)]
pub struct RefreshLedger {
    owed_refreshes: BTreeMap<u64, OwedRefresh>,
    /// `None` if the ledger is opened read-only; then nothing is written.
    journal: Option<FileAppender>,
    next_id: u64,
    /// Damage found in the journal, for the log.
    warnings: Vec<String>,
}

/// The refreshes caused by one change that is about to be made.
#[derive(Debug)]
#[must_use = "resolve an intent with `mark_change_made` or `mark_change_not_made`"]
pub struct RefreshIntent {
    ids: Vec<u64>,
}

impl RefreshLedger {
    /// Reads the journal and compacts it: completed entries are dropped. Unreadable records are reported, never treated as completed.
    pub fn open(state: &StateDir) -> SystemResult<Self> {
        let mut ledger = Self::open_in_memory(state)?;
        let owed = ledger.owed_refreshes.values().cloned();
        let content: Vec<u8> =
            owed.flat_map(|refresh| LedgerRecord::Owed { refresh }.to_line()).collect();
        state.replace_file(JOURNAL_FILE, &content)?;
        ledger.journal = Some(state.open_appender(JOURNAL_FILE, content.len() as u64)?);
        Ok(ledger)
    }

    /// Opens the ledger for a plan: records stay in memory, and the journal file is not modified.
    pub fn open_in_memory(state: &StateDir) -> SystemResult<Self> {
        let content = state.read_file(JOURNAL_FILE, MAX_JOURNAL_BYTES)?.unwrap_or_default();
        let (records, warnings) = journal::parse_journal(&content);
        let mut owed_refreshes = BTreeMap::new();
        let mut next_id = 1;
        for record in records {
            if let LedgerRecord::Owed { refresh } = &record {
                next_id = next_id.max(refresh.id.saturating_add(1));
            }
            record.apply_to(&mut owed_refreshes);
        }
        Ok(Self { owed_refreshes, journal: None, next_id, warnings })
    }

    /// Reads pending refreshes without modifying anything; safe while another process runs.
    pub fn read_owed(state: &StateDir) -> SystemResult<Vec<OwedRefresh>> {
        Ok(Self::open_in_memory(state)?.owed_refreshes.into_values().collect())
    }

    /// Damage found in the journal.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// All pending refreshes, oldest first.
    pub fn owed_refreshes(&self) -> impl Iterator<Item = &OwedRefresh> {
        self.owed_refreshes.values()
    }

    /// Records the refreshes that a change will cause, before it is made. Durable on return.
    pub fn record_intent(
        &mut self,
        run: &str,
        source: &str,
        plan: &str,
        since: i64,
        targets: &[(String, String)],
    ) -> SystemResult<RefreshIntent> {
        let mut ids = Vec::with_capacity(targets.len());
        let mut lines = Vec::new();
        for (target, definition) in targets {
            let owed = OwedRefresh {
                id: self.next_id,
                run: run.to_owned(),
                source: source.to_owned(),
                target: target.clone(),
                certainty: RefreshCertainty::Uncertain,
                plan: plan.to_owned(),
                target_definition: definition.clone(),
                since,
                reason: None,
                attempts: 0,
            };
            self.next_id += 1;
            ids.push(owed.id);
            lines.extend(LedgerRecord::Owed { refresh: owed.clone() }.to_line());
            self.owed_refreshes.insert(owed.id, owed);
        }
        if let Some(journal) = self.journal.as_mut().filter(|_| !lines.is_empty()) {
            journal.append(&lines)?;
            journal.sync()?;
        }
        Ok(RefreshIntent { ids })
    }

    /// Marks the change as made: its refreshes are pending.
    pub fn mark_change_made(&mut self, intent: &RefreshIntent) -> SystemResult<()> {
        self.confirm_owed(&intent.ids)
    }

    /// Marks the change as not made: its refreshes are dropped.
    pub fn mark_change_not_made(&mut self, intent: &RefreshIntent) -> SystemResult<()> {
        self.remove_owed(&intent.ids)
    }

    /// Marks uncertain entries as pending.
    pub fn confirm_owed(&mut self, ids: &[u64]) -> SystemResult<()> {
        self.add_record(ids, |ids| LedgerRecord::Confirmed { ids })
    }

    /// Removes entries that were completed or turned out not to be pending.
    pub fn remove_owed(&mut self, ids: &[u64]) -> SystemResult<()> {
        self.add_record(ids, |ids| LedgerRecord::Settled { ids })
    }

    /// Records the start of a refresh. An interrupted refresh is repeated: at least once, possibly twice.
    pub fn begin_refresh(&mut self, target: &str) -> SystemResult<()> {
        let ids = self.ids_of(target);
        self.add_record(&ids, |ids| LedgerRecord::Begun { ids })
    }

    /// Marks the refresh of the target as successful: all its entries are completed.
    pub fn mark_refreshed(&mut self, target: &str) -> SystemResult<()> {
        let ids = self.ids_of(target);
        self.remove_owed(&ids)
    }

    /// Records why the target cannot be refreshed now.
    pub fn record_reason(&mut self, target: &str, reason: &str) -> SystemResult<()> {
        let has_other_reason =
            |owed: &&OwedRefresh| owed.target == target && owed.reason.as_deref() != Some(reason);
        let changed: Vec<u64> =
            self.owed_refreshes.values().filter(has_other_reason).map(|owed| owed.id).collect();
        let reason = reason.to_owned();
        self.add_record(&changed, |ids| LedgerRecord::Explained { ids, reason })
    }

    /// Whether the target has a pending (not uncertain) refresh.
    pub fn is_refresh_owed(&self, target: &str) -> bool {
        self.owed_refreshes
            .values()
            .any(|owed| owed.target == target && owed.certainty == RefreshCertainty::Pending)
    }

    /// Uncertain entries whose source is the given resource.
    pub fn uncertain_from(&self, source: &str) -> Vec<OwedRefresh> {
        let uncertain = |owed: &&OwedRefresh| {
            owed.source == source && owed.certainty == RefreshCertainty::Uncertain
        };
        self.owed_refreshes.values().filter(uncertain).cloned().collect()
    }

    fn ids_of(&self, target: &str) -> Vec<u64> {
        let of_target = self.owed_refreshes.values().filter(|owed| owed.target == target);
        of_target.map(|owed| owed.id).collect()
    }

    /// Applies a record to the entries and appends it to the journal.
    fn add_record(
        &mut self,
        ids: &[u64],
        record: impl FnOnce(BTreeSet<u64>) -> LedgerRecord,
    ) -> SystemResult<()> {
        if ids.is_empty() {
            return Ok(());
        }
        let record = record(ids.iter().copied().collect());
        let line = record.to_line();
        record.apply_to(&mut self.owed_refreshes);
        self.journal.as_mut().map_or(Ok(()), |journal| journal.append(&line))
    }
}

#[cfg(test)]
mod tests;
