//! Per-resource state kept between runs: time of the last check, and values.
//!
//! Used for schedules (last check), audits (values found) and corrective changes (values applied by an earlier run).
//! Losing it loses no change and no refresh; pending refreshes are in the ledger.

use std::collections::BTreeMap;

use muster_system::{StateDir, SystemResult};
use serde::{Deserialize, Serialize};

use crate::resource::ResourceValue;

pub const STATE_STORE_FILE: &str = "resources.json";
const MAX_STATE_STORE_BYTES: u64 = 256 * 1024 * 1024;
/// Entries not seen for this many seconds are dropped: 32 days, as Puppet's `statettl`.
const STATE_TTL_SECS: i64 = 32 * 24 * 3600;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StoredResourceState {
    /// Time of the last check, in seconds since the epoch.
    pub checked: Option<i64>,
    /// Time of the last change, in seconds since the epoch.
    pub synced: Option<i64>,
    /// Values that an earlier run applied or found in sync.
    #[serde(rename = "brought", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub applied: BTreeMap<String, ResourceValue>,
    /// Values found by an earlier audit.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub audited: BTreeMap<String, ResourceValue>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ResourceStateStore {
    resources: BTreeMap<String, StoredResourceState>,
}

impl ResourceStateStore {
    /// A file that cannot be parsed is reported and treated as missing.
    pub fn load(state: &StateDir) -> SystemResult<(Self, Option<String>)> {
        let Some(content) = state.read_file(STATE_STORE_FILE, MAX_STATE_STORE_BYTES)? else {
            return Ok((Self::default(), None));
        };
        match serde_json::from_slice(&content) {
            Ok(store) => Ok((store, None)),
            Err(error) => {
                let warning = format!(
                    "{STATE_STORE_FILE} is damaged ({error}); schedules and audits are reset"
                );
                Ok((Self::default(), Some(warning)))
            }
        }
    }

    /// Saves the store without expired entries.
    pub fn save(&mut self, state: &StateDir, now: i64) -> SystemResult<()> {
        self.resources.retain(|_, resource| {
            resource.checked.is_some_and(|checked| now - checked < STATE_TTL_SECS)
        });
        state.replace_record(STATE_STORE_FILE, self)
    }

    pub fn get(&self, reference: &str) -> Option<&StoredResourceState> {
        self.resources.get(reference)
    }

    /// Stored state of one resource, mutable; created if missing.
    pub fn get_mut(&mut self, reference: &str) -> &mut StoredResourceState {
        self.resources.entry(reference.to_owned()).or_default()
    }
}
