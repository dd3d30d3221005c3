//! Refreshes whose target left the catalog: kept for 30 days in case it returns, then dropped.
//!
//! What was dropped is listed in a file of its own, from which the daemon publishes an event for each; `rpcd apply`, which runs without a daemon,
//! writes the same file.

use std::collections::BTreeSet;
use std::path::Path;

use muster_system::{StateDir, SystemResult};
use serde::{Deserialize, Serialize};

use super::journal::LedgerRecord;
use super::{OwedRefresh, RefreshLedger};
use crate::providers::digest::ChecksumKind;

/// How long the refresh of a missing target is kept, in seconds: 30 days.
pub const MISSING_TARGET_TTL_SECS: i64 = 30 * 24 * 3600;
/// Name of the file of dropped refreshes in the state directory.
pub const EXPIRED_FILE: &str = "refreshes.expired";
/// Maximum number of refreshes in this file; the oldest are removed.
const MAX_EXPIRED: usize = 100;
const MAX_EXPIRED_BYTES: u64 = 4 * 1024 * 1024;
/// Number of hexadecimal digits of an id, which is a UUID without hyphens.
const ID_DIGITS: usize = 32;

/// A refresh that was dropped because its target did not return.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpiredRefresh {
    /// Identity: the same if the same refresh is dropped again after a crash.
    pub id: String,
    /// The changed resource.
    pub source: String,
    /// The resource that was not refreshed.
    pub target: String,
    /// The run in which the source was changed.
    pub run: String,
    /// Time of the change, in seconds since the epoch.
    pub since: i64,
    /// When the refresh was dropped, in seconds since the epoch.
    pub expired_at: i64,
}

impl ExpiredRefresh {
    fn new(owed: &OwedRefresh, expired_at: i64) -> Self {
        let OwedRefresh { source, target, run, since, .. } = owed.clone();
        let identity = format!("{run}\n{source}\n{target}\n{since}");
        let mut id = ChecksumKind::Sha256.hex_checksum(identity.as_bytes());
        id.truncate(ID_DIGITS);
        Self { id, source, target, run, since, expired_at }
    }
}

impl RefreshLedger {
    /// Compares the entries with a catalog, and drops those whose target has been missing for 30 days. Returns the dropped ones.
    pub fn expire_missing(
        &mut self,
        now: i64,
        missing_targets: &BTreeSet<String>,
    ) -> SystemResult<Vec<OwedRefresh>> {
        let is_missing = |owed: &&OwedRefresh| missing_targets.contains(&owed.target);
        let (missing, present): (Vec<&OwedRefresh>, Vec<&OwedRefresh>) =
            self.owed_refreshes().partition(is_missing);
        let ids = |entries: &[&OwedRefresh], holds: &dyn Fn(&OwedRefresh) -> bool| -> Vec<u64> {
            entries.iter().filter(|owed| holds(owed)).map(|owed| owed.id).collect()
        };
        let newly_missing = ids(&missing, &|owed| owed.missing_since.is_none());
        let returned = ids(&present, &|owed| owed.missing_since.is_some());
        let is_expired = |owed: &OwedRefresh| {
            owed.missing_since.is_some_and(|since| now - since > MISSING_TARGET_TTL_SECS)
        };
        let expired: Vec<OwedRefresh> =
            missing.into_iter().filter(|owed| is_expired(owed)).cloned().collect();
        self.add_record(&newly_missing, |ids| LedgerRecord::Missing { ids, since: Some(now) })?;
        self.add_record(&returned, |ids| LedgerRecord::Missing { ids, since: None })?;
        self.list_expired(&expired, now)?;
        let ids: Vec<u64> = expired.iter().map(|owed| owed.id).collect();
        self.remove_owed(&ids)?;
        Ok(expired)
    }

    /// Adds entries to the file of dropped refreshes, before they are removed from the journal.
    fn list_expired(&self, expired: &[OwedRefresh], now: i64) -> SystemResult<()> {
        if expired.is_empty() || self.journal.is_none() {
            return Ok(());
        }
        let mut listed = read_list(&self.state)?;
        let new = expired.iter().map(|owed| ExpiredRefresh::new(owed, now));
        for refresh in new {
            if !listed.iter().any(|known| known.id == refresh.id) {
                listed.push(refresh);
            }
        }
        listed.drain(..listed.len().saturating_sub(MAX_EXPIRED));
        self.state.replace_record(EXPIRED_FILE, &listed)
    }
}

/// The refreshes that were dropped on a machine, oldest first; empty if the state directory does not exist.
pub fn read_expired(directory: &Path) -> SystemResult<Vec<ExpiredRefresh>> {
    if !directory.is_dir() {
        return Ok(Vec::new());
    }
    read_list(&StateDir::open(directory)?)
}

/// An invalid file counts as empty: events are only a notification.
fn read_list(state: &StateDir) -> SystemResult<Vec<ExpiredRefresh>> {
    Ok(state.read_record(EXPIRED_FILE, MAX_EXPIRED_BYTES)?.unwrap_or_default())
}
