//! Journal of pending refreshes: a failure, a skip, noop mode or a crash never loses a notification.
//!
//! Before a resource that refreshes others is changed, the refreshes it will cause are written to disk (an *intent*). After the change they are
//! *pending* until the target is refreshed successfully, in this run or a later one. If the run dies after the intent, the entry
//! is *uncertain*: the next evaluation of the source decides whether the change was made.
//!
//! [`journal`] defines the record format, [`expiry`] drops the refreshes of targets that left the catalog. All decisions about pending refreshes
//! are made in this module.

pub mod expiry;
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
    /// Digests of the source's values before the change, by property. Empty if the change cannot be reverted, or if a value is secret.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub source_before: BTreeMap<String, String>,
    /// Whether the source has these values again. The refresh is still made, because the change may have had effects meanwhile.
    #[serde(default)]
    pub source_reverted: bool,
    /// Whether the definition of the target has changed since. The refresh is made by the new one.
    #[serde(default)]
    pub target_changed: bool,
    /// Since when the target is missing from the catalog, in seconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing_since: Option<i64>,
}

/// Beginning of a digest that the wrapper of an unmodified Puppet made. It covers other values than those of the engine, so they are not compared.
pub const PUPPET_DEFINITION_PREFIX: &str = "puppet:";

impl OwedRefresh {
    /// Whether the target's definition with this digest differs from the recorded one. False if they cannot be compared.
    pub fn has_other_definition(&self, digest: &str) -> bool {
        let is_of_puppet = |digest: &str| digest.starts_with(PUPPET_DEFINITION_PREFIX);
        let recorded = self.target_definition.as_str();
        !recorded.is_empty() && is_of_puppet(recorded) == is_of_puppet(digest) && recorded != digest
    }

    /// Remarks for users about what changed since the refresh was recorded; empty if nothing did.
    pub fn remarks(&self) -> String {
        let reverted = self.source_reverted.then_some("its source was reverted since");
        let changed = self.target_changed.then_some("its definition has changed since");
        let remarks: Vec<&str> = reverted.into_iter().chain(changed).collect();
        remarks.join("; ")
    }
}

/// A change that is about to be made, and that will cause refreshes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceChange {
    /// The run that makes it.
    pub run: String,
    /// The resource that will be changed.
    pub source: String,
    /// Digest of the planned change.
    pub plan: String,
    /// See [`OwedRefresh::source_before`].
    pub before: BTreeMap<String, String>,
    /// The time, in seconds since the epoch.
    pub time: i64,
}

/// The pending refreshes of one node, stored on disk.
#[derive(Debug)]
pub struct RefreshLedger {
    state: StateDir,
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
        let lines = owed.map(|refresh| LedgerRecord::Owed { refresh }.to_line());
        let content = lines.collect::<SystemResult<Vec<_>>>()?.concat();
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
        Ok(Self { state: state.clone(), owed_refreshes, journal: None, next_id, warnings })
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
        change: &SourceChange,
        targets: &[(String, String)],
    ) -> SystemResult<RefreshIntent> {
        let mut ids = Vec::with_capacity(targets.len());
        let mut lines = Vec::new();
        for (target, definition) in targets {
            let owed = OwedRefresh {
                id: self.next_id,
                run: change.run.clone(),
                source: change.source.clone(),
                target: target.clone(),
                certainty: RefreshCertainty::Uncertain,
                plan: change.plan.clone(),
                target_definition: definition.clone(),
                since: change.time,
                reason: None,
                attempts: 0,
                source_before: change.before.clone(),
                source_reverted: false,
                target_changed: false,
                missing_since: None,
            };
            self.next_id += 1;
            ids.push(owed.id);
            lines.extend(LedgerRecord::Owed { refresh: owed.clone() }.to_line()?);
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

    /// Marks a refresh as successful that `run` made at `time`, and that is known only later: newer entries of other runs remain. An entry of the same
    /// second counts as newer, because an extra refresh is preferable to a lost one.
    pub fn mark_refreshed_at(&mut self, target: &str, run: &str, time: i64) -> SystemResult<()> {
        let of_target = self.owed_refreshes.values().filter(|owed| owed.target == target);
        let is_older = |owed: &&OwedRefresh| owed.run == run || owed.since < time;
        let ids: Vec<u64> = of_target.filter(is_older).map(|owed| owed.id).collect();
        self.remove_owed(&ids)
    }

    pub fn record_reason(&mut self, target: &str, reason: &str) -> SystemResult<()> {
        let has_other_reason =
            |owed: &&OwedRefresh| owed.target == target && owed.reason.as_deref() != Some(reason);
        let changed: Vec<u64> =
            self.owed_refreshes.values().filter(has_other_reason).map(|owed| owed.id).collect();
        let reason = reason.to_owned();
        self.add_record(&changed, |ids| LedgerRecord::Explained { ids, reason })
    }

    /// Records whether the sources of these entries are again as they were before the change; returns the entries for which that is new.
    pub fn record_source_reverted(
        &mut self,
        ids: &[u64],
        is_reverted: bool,
    ) -> SystemResult<Vec<OwedRefresh>> {
        let changed = self.select_ids(ids, |owed| owed.source_reverted != is_reverted);
        self.add_record(&changed, |ids| LedgerRecord::Reverted { ids, is_reverted })?;
        Ok(changed.iter().filter_map(|id| self.owed_refreshes.get(id).cloned()).collect())
    }

    /// Records whether the definition of the targets of these entries has changed.
    pub fn record_target_changed(&mut self, ids: &[u64], is_changed: bool) -> SystemResult<()> {
        let changed = self.select_ids(ids, |owed| owed.target_changed != is_changed);
        self.add_record(&changed, |ids| LedgerRecord::Redefined { ids, is_changed })
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

    /// Of these entries, those for which the condition holds.
    fn select_ids(&self, ids: &[u64], holds: impl Fn(&OwedRefresh) -> bool) -> Vec<u64> {
        let is_selected = |id: &u64| self.owed_refreshes.get(id).is_some_and(&holds);
        ids.iter().copied().filter(is_selected).collect()
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
        let line = record.to_line()?;
        record.apply_to(&mut self.owed_refreshes);
        self.journal.as_mut().map_or(Ok(()), |journal| journal.append(&line))
    }
}

#[cfg(test)]
mod tests;
