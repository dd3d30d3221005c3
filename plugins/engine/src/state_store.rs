//! What the engine remembers of each resource from run to run: when it was looked at, and which values it had.
//!
//! For schedules (when last checked), audits (what was found) and corrective changes (what an earlier run had brought about).
//! Losing it loses no change and no refresh: those are the ledger's.

use std::collections::BTreeMap;

use muster_system::{StateDir, SystemError};
use serde::{Deserialize, Serialize};

use crate::resource::ResourceValue;

/// The name of the file in the state directory.
pub const STATE_STORE_FILE: &str = "resources.json";
/// The largest file that is read, in bytes.
const MAX_STATE_STORE_BYTES: u64 = 256 * 1024 * 1024;
/// What was not seen for so many seconds is forgotten: 32 days, as Puppet's `statettl`.
const STATE_TTL_SECS: i64 = 32 * 24 * 3600;

/// Of one resource.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StoredResourceState {
    /// When it was last looked at, in seconds since the epoch.
    pub checked: Option<i64>,
    /// When it was last changed.
    pub synced: Option<i64>,
    /// Which values an earlier run had brought about, or found as desired.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub brought: BTreeMap<String, ResourceValue>,
    /// Which values an earlier audit had found.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub audited: BTreeMap<String, ResourceValue>,
}

/// Of all resources, by reference.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ResourceStateStore {
    resources: BTreeMap<String, StoredResourceState>,
}

impl ResourceStateStore {
    /// Reads it. A file that cannot be understood is told, and counts as none.
    pub fn load(state: &StateDir) -> Result<(Self, Option<String>), SystemError> {
        let Some(content) = state.read_file(STATE_STORE_FILE, MAX_STATE_STORE_BYTES)? else {
            return Ok((Self::default(), None));
        };
        match serde_json::from_slice(&content) {
            Ok(memory) => Ok((memory, None)),
            Err(error) => {
                let warning = format!(
                    "{STATE_STORE_FILE} is damaged ({error}); schedules and audits begin anew"
                );
                Ok((Self::default(), Some(warning)))
            }
        }
    }

    /// Writes it, without what was not seen for long.
    pub fn save(&mut self, state: &StateDir, now: i64) -> Result<(), SystemError> {
        self.resources.retain(|_, seen| {
            seen.checked
                .is_some_and(|checked| now - checked < STATE_TTL_SECS)
        });
        // Texts, numbers and lists only; serialising them cannot fail.
        let content = serde_json::to_vec(self).unwrap_or_default();
        state.replace_file(STATE_STORE_FILE, &content)
    }

    /// What is remembered of one resource.
    pub fn get(&self, reference: &str) -> Option<&StoredResourceState> {
        self.resources.get(reference)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, reference: &str) -> &mut StoredResourceState {
        self.resources.entry(reference.to_owned()).or_default()
    }
}
