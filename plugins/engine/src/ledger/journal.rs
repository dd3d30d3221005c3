//! The records of the ledger; [`checked_lines`] has the format of its lines.
//!
//! [`checked_lines`]: muster_system::checked_lines
//!
//! Damaged lines are skipped and reported. If a damaged line completed a refresh, the refresh stays pending: an extra refresh is preferable to a
//! lost one.

use std::collections::{BTreeMap, BTreeSet};

use muster_system::checked_lines::{encode_checked_line, parse_checked_line, parse_checked_lines};
use muster_system::{SystemError, SystemResult};
use serde::{Deserialize, Serialize};

use super::{JOURNAL_FILE, OwedRefresh, RefreshCertainty};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "lowercase")]
pub enum LedgerRecord {
    /// A refresh was recorded.
    Owed {
        #[serde(rename = "debt")]
        refresh: OwedRefresh,
    },
    /// Uncertain entries became pending.
    Confirmed { ids: BTreeSet<u64> },
    /// A refresh started.
    Begun {
        /// Ids of the entries it will complete.
        ids: BTreeSet<u64>,
    },
    /// A refresh could not be executed.
    Explained { ids: BTreeSet<u64>, reason: String },
    /// The source was reverted, or is so no longer.
    Reverted { ids: BTreeSet<u64>, is_reverted: bool },
    /// The definition of the target changed, or is the recorded one again.
    Redefined {
        ids: BTreeSet<u64>,
        /// Whether it differs from the recorded one.
        is_changed: bool,
    },
    /// The target left the catalog, or returned.
    Missing {
        ids: BTreeSet<u64>,
        /// Since when it is missing, in seconds since the epoch; `None` if it is not.
        since: Option<i64>,
    },
    /// Entries were completed or dropped.
    Settled { ids: BTreeSet<u64> },
}

impl LedgerRecord {
    pub fn to_line(&self) -> SystemResult<Vec<u8>> {
        encode_checked_line(self).map_err(|error| SystemError::File {
            verb: "write",
            path: JOURNAL_FILE.into(),
            source: error.into(),
        })
    }

    /// Parses one line without its newline.
    pub fn parse(line: &[u8]) -> Option<Self> {
        parse_checked_line(line)
    }

    pub fn apply_to(self, owed_refreshes: &mut BTreeMap<u64, OwedRefresh>) {
        match self {
            Self::Owed { refresh } => {
                owed_refreshes.insert(refresh.id, refresh);
            }
            Self::Confirmed { ids } => for_each_id(owed_refreshes, &ids, |owed| {
                owed.certainty = RefreshCertainty::Pending;
            }),
            Self::Begun { ids } => for_each_id(owed_refreshes, &ids, |owed| owed.attempts += 1),
            Self::Explained { ids, reason } => for_each_id(owed_refreshes, &ids, |owed| {
                owed.reason = Some(reason.clone());
            }),
            Self::Reverted { ids, is_reverted } => for_each_id(owed_refreshes, &ids, |owed| {
                owed.source_reverted = is_reverted;
            }),
            Self::Redefined { ids, is_changed } => for_each_id(owed_refreshes, &ids, |owed| {
                owed.target_changed = is_changed;
            }),
            Self::Missing { ids, since } => for_each_id(owed_refreshes, &ids, |owed| {
                owed.missing_since = since;
            }),
            Self::Settled { ids } => owed_refreshes.retain(|id, _| !ids.contains(id)),
        }
    }
}

fn for_each_id(
    owed_refreshes: &mut BTreeMap<u64, OwedRefresh>,
    ids: &BTreeSet<u64>,
    update: impl Fn(&mut OwedRefresh),
) {
    for id in ids {
        if let Some(owed) = owed_refreshes.get_mut(id) {
            update(owed);
        }
    }
}

/// Returns all valid records of a journal, and the errors of the other lines.
pub fn parse_journal(content: &[u8]) -> (Vec<LedgerRecord>, Vec<String>) {
    parse_checked_lines(content, "refresh ledger")
}
