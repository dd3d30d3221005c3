//! Which refreshes are owed: a notification is never lost to a failure, a skip, noop, or a crash.
//!
//! Before a resource is changed that refreshes others, what will be owed is on the disk (an *intent*). After the change it is
//! *pending*, and stays so until the refresh of its target has succeeded, in this run or any later one. An intent whose run died
//! is *uncertain*: the next evaluation of its source decides whether the change was made.
//!
//! [`journal`] has the bytes. Who is owed what, and when a debt is paid, is decided here and nowhere else.

pub mod journal;

use std::collections::{BTreeMap, BTreeSet};

use muster_system::{FileAppender, StateDir, SystemError};
use serde::{Deserialize, Serialize};

use journal::LedgerRecord;

/// The name of the file in the state directory.
pub const JOURNAL_FILE: &str = "refreshes.journal";
/// The largest journal that is read, in bytes. It is rewritten at each start, so that only a run's own records add to it.
const MAX_JOURNAL_BYTES: u64 = 64 * 1024 * 1024;

/// How certain it is that a refresh is owed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RefreshCertainty {
    /// The run died between the intent and its outcome.
    Uncertain,
    /// The source was changed.
    Pending,
}

/// One owed refresh.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwedRefresh {
    /// Its number in the ledger.
    pub id: u64,
    /// The run in which the source was changed.
    pub run: String,
    /// The resource that was changed: `File[/etc/app.conf]`.
    pub source: String,
    /// The resource that is owed a refresh: `Exec[reload]`.
    pub target: String,
    /// Whether the change was made for certain.
    pub certainty: RefreshCertainty,
    /// What the source was about to change, as a digest: an uncertain debt is none if the same is still to be changed.
    pub plan: String,
    /// What was desired of the target then, as a digest.
    pub target_definition: String,
    /// When the source was changed: seconds since the epoch.
    pub since: i64,
    /// Why it has not been paid yet.
    pub reason: Option<String>,
    /// How often a refresh was begun for it and did not succeed.
    pub attempts: u32,
}

/// The debts of one node, on the disk.
#[derive(Debug)]
pub struct RefreshLedger {
    debts: BTreeMap<u64, OwedRefresh>,
    /// Absent when the ledger is only viewed: nothing is written then.
    journal: Option<FileAppender>,
    next: u64,
    /// What was damaged on the disk, for the log.
    warnings: Vec<String>,
}

/// The debts of one change that is about to be made.
#[derive(Debug)]
#[must_use = "an intent is settled by `made` or `not_made`"]
pub struct RefreshIntent {
    ids: Vec<u64>,
}

impl RefreshLedger {
    /// Reads the journal, and writes it anew without what was paid. What cannot be read is told, never taken for paid.
    pub fn open(state: &StateDir) -> Result<Self, SystemError> {
        let (debts, warnings, next) = load_journal(state)?;
        let content: Vec<u8> = debts
            .values()
            .flat_map(|debt| LedgerRecord::Owed { debt: debt.clone() }.to_line())
            .collect();
        state.replace_file(JOURNAL_FILE, &content)?;
        let length = u64::try_from(content.len()).unwrap_or(u64::MAX);
        Ok(Self {
            debts,
            journal: Some(state.open_appender(JOURNAL_FILE, length)?),
            next,
            warnings,
        })
    }

    /// The same for a plan: what is recorded stays in memory, and the journal is left as it is.
    pub fn open_in_memory(state: &StateDir) -> Result<Self, SystemError> {
        let (debts, warnings, next) = load_journal(state)?;
        Ok(Self {
            debts,
            journal: None,
            next,
            warnings,
        })
    }

    /// What is owed, without touching anything: for looking while somebody else may be running.
    pub fn read_owed(state: &StateDir) -> Result<Vec<OwedRefresh>, SystemError> {
        Ok(load_journal(state)?.0.into_values().collect())
    }

    /// What was damaged on the disk.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Everything that is owed, oldest first.
    pub fn owed_refreshes(&self) -> impl Iterator<Item = &OwedRefresh> {
        self.debts.values()
    }

    /// Says what a change will cause, before it is made. On the disk when this returns.
    pub fn record_intent(
        &mut self,
        run: &str,
        source: &str,
        plan: &str,
        since: i64,
        targets: &[(String, String)],
    ) -> Result<RefreshIntent, SystemError> {
        let mut ids = Vec::with_capacity(targets.len());
        let mut lines = Vec::new();
        for (target, definition) in targets {
            let debt = OwedRefresh {
                id: self.next,
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
            self.next += 1;
            ids.push(debt.id);
            lines.extend(LedgerRecord::Owed { debt: debt.clone() }.to_line());
            self.debts.insert(debt.id, debt);
        }
        if let Some(journal) = self.journal.as_mut().filter(|_| !lines.is_empty()) {
            journal.append(&lines)?;
            journal.sync()?;
        }
        Ok(RefreshIntent { ids })
    }

    /// The change was made: what was intended is owed.
    pub fn mark_change_made(&mut self, intent: &RefreshIntent) -> Result<(), SystemError> {
        self.confirm_owed(&intent.ids)
    }

    /// Nothing was changed: nothing is owed.
    pub fn mark_change_not_made(&mut self, intent: &RefreshIntent) -> Result<(), SystemError> {
        self.remove_owed(&intent.ids)
    }

    /// An uncertain debt turned out to be owed.
    pub fn confirm_owed(&mut self, ids: &[u64]) -> Result<(), SystemError> {
        for id in ids {
            if let Some(debt) = self.debts.get_mut(id) {
                debt.certainty = RefreshCertainty::Pending;
            }
        }
        self.append_record(ids, |ids| LedgerRecord::Confirmed { ids })
    }

    /// Debts that are paid, or turned out not to be owed.
    pub fn remove_owed(&mut self, ids: &[u64]) -> Result<(), SystemError> {
        self.debts.retain(|id, _| !ids.contains(id));
        self.append_record(ids, |ids| LedgerRecord::Settled { ids })
    }

    /// A refresh of the target begins. If it is interrupted, it is made again: twice is better than never.
    pub fn begin_refresh(&mut self, target: &str) -> Result<(), SystemError> {
        let ids = self.ids_of(target);
        for id in &ids {
            if let Some(debt) = self.debts.get_mut(id) {
                debt.attempts += 1;
            }
        }
        self.append_record(&ids, |ids| LedgerRecord::Begun { ids })
    }

    /// The refresh of the target succeeded: whatever it was owed is paid.
    pub fn mark_refreshed(&mut self, target: &str) -> Result<(), SystemError> {
        let ids = self.ids_of(target);
        self.remove_owed(&ids)
    }

    /// Why the target could not be refreshed now.
    pub fn record_reason(&mut self, target: &str, reason: &str) -> Result<(), SystemError> {
        let ids = self.ids_of(target);
        let mut changed = Vec::new();
        for id in ids {
            if let Some(debt) = self.debts.get_mut(&id)
                && debt.reason.as_deref() != Some(reason)
            {
                debt.reason = Some(reason.to_owned());
                changed.push(id);
            }
        }
        let reason = reason.to_owned();
        self.append_record(&changed, |ids| LedgerRecord::Explained { ids, reason })
    }

    /// Whether the target is owed a refresh for certain.
    pub fn is_refresh_owed(&self, target: &str) -> bool {
        self.debts
            .values()
            .any(|debt| debt.target == target && debt.certainty == RefreshCertainty::Pending)
    }

    /// The uncertain debts that a change of the source would have caused.
    pub fn uncertain_from(&self, source: &str) -> Vec<OwedRefresh> {
        let uncertain = |debt: &&OwedRefresh| {
            debt.source == source && debt.certainty == RefreshCertainty::Uncertain
        };
        self.debts.values().filter(uncertain).cloned().collect()
    }

    fn ids_of(&self, target: &str) -> Vec<u64> {
        let of_target = self.debts.values().filter(|debt| debt.target == target);
        of_target.map(|debt| debt.id).collect()
    }

    fn append_record(
        &mut self,
        ids: &[u64],
        record: impl FnOnce(BTreeSet<u64>) -> LedgerRecord,
    ) -> Result<(), SystemError> {
        let Some(journal) = self.journal.as_mut().filter(|_| !ids.is_empty()) else {
            return Ok(());
        };
        journal.append(&record(ids.iter().copied().collect()).to_line())
    }
}

type LoadedLedger = (BTreeMap<u64, OwedRefresh>, Vec<String>, u64);

fn load_journal(state: &StateDir) -> Result<LoadedLedger, SystemError> {
    let content = state
        .read_file(JOURNAL_FILE, MAX_JOURNAL_BYTES)?
        .unwrap_or_default();
    let (records, warnings) = journal::parse_journal(&content);
    let mut debts = BTreeMap::new();
    let mut next = 1;
    for record in records {
        if let LedgerRecord::Owed { debt } = &record {
            next = next.max(debt.id.saturating_add(1));
        }
        record.apply_to(&mut debts);
    }
    Ok((debts, warnings, next))
}

#[cfg(test)]
mod tests;
