//! Which refreshes are owed: a notification is never lost to a failure, a skip, noop, or a crash.
//!
//! Before a resource is changed that refreshes others, what will be owed is on the disk (an *intent*). After the change it is
//! *pending*, and stays so until the refresh of its target has succeeded, in this run or any later one. An intent whose run died
//! is *uncertain*: the next evaluation of its source decides whether the change was made.
//!
//! [`journal`] has the bytes. Who is owed what, and when a debt is paid, is decided here and nowhere else.

pub mod journal;

use std::collections::{BTreeMap, BTreeSet};

use muster_system::{Appender, StateDir, SystemError};
use serde::{Deserialize, Serialize};

use journal::Record;

/// The name of the file in the state directory.
pub const FILE: &str = "refreshes.journal";
/// The largest journal that is read, in bytes. It is rewritten at each start, so that only a run's own records add to it.
const LIMIT: u64 = 64 * 1024 * 1024;

/// How certain it is that a refresh is owed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Certainty {
    /// The run died between the intent and its outcome.
    Uncertain,
    /// The source was changed.
    Pending,
}

/// One owed refresh.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Debt {
    /// Its number in the ledger.
    pub id: u64,
    /// The run in which the source was changed.
    pub run: String,
    /// The resource that was changed: `File[/etc/app.conf]`.
    pub source: String,
    /// The resource that is owed a refresh: `Exec[reload]`.
    pub target: String,
    /// Whether the change was made for certain.
    pub certainty: Certainty,
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
pub struct Ledger {
    debts: BTreeMap<u64, Debt>,
    /// Absent when the ledger is only viewed: nothing is written then.
    journal: Option<Appender>,
    next: u64,
    /// What was damaged on the disk, for the log.
    warnings: Vec<String>,
}

/// The debts of one change that is about to be made.
#[derive(Debug)]
#[must_use = "an intent is settled by `made` or `not_made`"]
pub struct Intent {
    ids: Vec<u64>,
}

impl Ledger {
    /// Reads the journal, and writes it anew without what was paid. What cannot be read is told, never taken for paid.
    pub fn open(state: &StateDir) -> Result<Self, SystemError> {
        let (debts, warnings, next) = load(state)?;
        let content: Vec<u8> = debts
            .values()
            .flat_map(|debt| Record::Owed { debt: debt.clone() }.line())
            .collect();
        state.replace(FILE, &content)?;
        let length = u64::try_from(content.len()).unwrap_or(u64::MAX);
        Ok(Self {
            debts,
            journal: Some(state.appender(FILE, length)?),
            next,
            warnings,
        })
    }

    /// The same for a plan: what is recorded stays in memory, and the journal is left as it is.
    pub fn view(state: &StateDir) -> Result<Self, SystemError> {
        let (debts, warnings, next) = load(state)?;
        Ok(Self {
            debts,
            journal: None,
            next,
            warnings,
        })
    }

    /// What is owed, without touching anything: for looking while somebody else may be running.
    pub fn peek(state: &StateDir) -> Result<Vec<Debt>, SystemError> {
        Ok(load(state)?.0.into_values().collect())
    }

    /// What was damaged on the disk.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Everything that is owed, oldest first.
    pub fn debts(&self) -> impl Iterator<Item = &Debt> {
        self.debts.values()
    }

    /// Says what a change will cause, before it is made. On the disk when this returns.
    pub fn intend(
        &mut self,
        run: &str,
        source: &str,
        plan: &str,
        since: i64,
        targets: &[(String, String)],
    ) -> Result<Intent, SystemError> {
        let mut ids = Vec::with_capacity(targets.len());
        let mut lines = Vec::new();
        for (target, definition) in targets {
            let debt = Debt {
                id: self.next,
                run: run.to_owned(),
                source: source.to_owned(),
                target: target.clone(),
                certainty: Certainty::Uncertain,
                plan: plan.to_owned(),
                target_definition: definition.clone(),
                since,
                reason: None,
                attempts: 0,
            };
            self.next += 1;
            ids.push(debt.id);
            lines.extend(Record::Owed { debt: debt.clone() }.line());
            self.debts.insert(debt.id, debt);
        }
        if let Some(journal) = self.journal.as_mut().filter(|_| !lines.is_empty()) {
            journal.append(&lines)?;
            journal.sync()?;
        }
        Ok(Intent { ids })
    }

    /// The change was made: what was intended is owed.
    pub fn made(&mut self, intent: &Intent) -> Result<(), SystemError> {
        self.confirm(&intent.ids)
    }

    /// Nothing was changed: nothing is owed.
    pub fn not_made(&mut self, intent: &Intent) -> Result<(), SystemError> {
        self.forget(&intent.ids)
    }

    /// An uncertain debt turned out to be owed.
    pub fn confirm(&mut self, ids: &[u64]) -> Result<(), SystemError> {
        for id in ids {
            if let Some(debt) = self.debts.get_mut(id) {
                debt.certainty = Certainty::Pending;
            }
        }
        self.record(ids, |ids| Record::Confirmed { ids })
    }

    /// Debts that are paid, or turned out not to be owed.
    pub fn forget(&mut self, ids: &[u64]) -> Result<(), SystemError> {
        self.debts.retain(|id, _| !ids.contains(id));
        self.record(ids, |ids| Record::Settled { ids })
    }

    /// A refresh of the target begins. If it is interrupted, it is made again: twice is better than never.
    pub fn begin(&mut self, target: &str) -> Result<(), SystemError> {
        let ids = self.ids_of(target);
        for id in &ids {
            if let Some(debt) = self.debts.get_mut(id) {
                debt.attempts += 1;
            }
        }
        self.record(&ids, |ids| Record::Begun { ids })
    }

    /// The refresh of the target succeeded: whatever it was owed is paid.
    pub fn paid(&mut self, target: &str) -> Result<(), SystemError> {
        let ids = self.ids_of(target);
        self.forget(&ids)
    }

    /// Why the target could not be refreshed now.
    pub fn explain(&mut self, target: &str, reason: &str) -> Result<(), SystemError> {
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
        self.record(&changed, |ids| Record::Explained { ids, reason })
    }

    /// Whether the target is owed a refresh for certain.
    pub fn owes(&self, target: &str) -> bool {
        self.debts
            .values()
            .any(|debt| debt.target == target && debt.certainty == Certainty::Pending)
    }

    /// The uncertain debts that a change of the source would have caused.
    pub fn uncertain_from(&self, source: &str) -> Vec<Debt> {
        let uncertain =
            |debt: &&Debt| debt.source == source && debt.certainty == Certainty::Uncertain;
        self.debts.values().filter(uncertain).cloned().collect()
    }

    fn ids_of(&self, target: &str) -> Vec<u64> {
        let of_target = self.debts.values().filter(|debt| debt.target == target);
        of_target.map(|debt| debt.id).collect()
    }

    fn record(
        &mut self,
        ids: &[u64],
        record: impl FnOnce(BTreeSet<u64>) -> Record,
    ) -> Result<(), SystemError> {
        let Some(journal) = self.journal.as_mut().filter(|_| !ids.is_empty()) else {
            return Ok(());
        };
        journal.append(&record(ids.iter().copied().collect()).line())
    }
}

type Loaded = (BTreeMap<u64, Debt>, Vec<String>, u64);

fn load(state: &StateDir) -> Result<Loaded, SystemError> {
    let content = state.read(FILE, LIMIT)?.unwrap_or_default();
    let (records, warnings) = journal::read(&content);
    let mut debts = BTreeMap::new();
    let mut next = 1;
    for record in records {
        if let Record::Owed { debt } = &record {
            next = next.max(debt.id.saturating_add(1));
        }
        record.apply(&mut debts);
    }
    Ok((debts, warnings, next))
}

#[cfg(test)]
mod tests;
