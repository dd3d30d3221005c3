//! Records of replaced state, so that changes can be undone.
//!
//! Before changes are made, the current property values are recorded, and the content of files that are about to
//! be replaced (`inverse`); after them, what they left. Undo applies the recorded state as ordinary resources
//! (`restore`), so it can be planned, rejected and undone itself. Executed commands and messages cannot be undone.

mod inverse;
mod restore;

use muster_system::command::CancelFlag;
use muster_system::{StateDir, SystemError};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use crate::engine::ResourceEngine;
use crate::plan::ResourcePlan;
use crate::resource::{Resource, ResourceValues, format_reference};
pub use restore::{
    PreparedRestore, RestoreConflict, RestoreTarget, prepare_targets, remaining_differences,
};

/// Directory of the records in the state directory.
const UNDO_DIRECTORY: &str = "undo";
/// The saved contents take at most half of it, even if JSON has to escape much of them.
const MAX_RECORD_BYTES: u64 = 64 * 1024 * 1024;
/// Maximum size of the contents that one record saves, in bytes.
const MAX_CONTENT_BYTES: u64 = 8 * 1024 * 1024;
/// Maximum size of the content left by a change that is saved to show later edits, in bytes.
const MAX_LEFT_CONTENT_BYTES: u64 = 256 * 1024;
const MAX_CHANGES: usize = 10_000;
/// Maximum number of records; the oldest are deleted first.
const MAX_RECORDS: usize = 1000;

/// The state replaced by the changes of one request.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "StoredRecord")]
pub struct UndoRecord {
    /// In the order in which the changes were made.
    changes: Vec<ChangeRecord>,
    /// Number of changes beyond [`MAX_CHANGES`], of which nothing is recorded.
    #[serde(default)]
    omitted: usize,
}

/// The state of one resource before and after its change.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ChangeRecord {
    pub(crate) type_name: String,
    pub(crate) title: String,
    /// Attributes that restore the previous state, in command-line syntax; `None` if that is impossible.
    #[serde(rename = "words")]
    pub(crate) attributes: Option<Map<String, Json>>,
    /// Why the change cannot be undone.
    pub(crate) obstacle: Option<String>,
    #[serde(default)]
    pub(crate) unrestored: Vec<UnrestoredProperty>,
    /// Resources that have to exist before this one is restored, such as the group of a user.
    #[serde(default)]
    pub(crate) prerequisites: Vec<Prerequisite>,
    /// The state after the change; `None` if the change was interrupted, or recorded by an earlier version.
    #[serde(default)]
    pub(crate) left: Option<ResourceValues>,
    /// The content of the file after the change, if it is short text.
    #[serde(default)]
    pub(crate) left_content: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UnrestoredProperty {
    pub(crate) property: String,
    pub(crate) reason: String,
    /// The attribute that restores it at the price of later changes; set only if the undo is forced.
    #[serde(default)]
    pub(crate) forced_attribute: Option<String>,
}

/// A resource that is restored before another one, if it is missing.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Prerequisite {
    pub(crate) type_name: String,
    pub(crate) title: String,
    pub(crate) attributes: Map<String, Json>,
}

/// A record as stored. Earlier versions stored a single change.
#[derive(Deserialize)]
#[serde(untagged)]
enum StoredRecord {
    Several {
        changes: Vec<ChangeRecord>,
        #[serde(default)]
        omitted: usize,
    },
    Single(Box<ChangeRecord>),
}

impl From<StoredRecord> for UndoRecord {
    fn from(stored: StoredRecord) -> Self {
        match stored {
            StoredRecord::Several { changes, omitted } => Self { changes, omitted },
            StoredRecord::Single(change) => Self { changes: vec![*change], omitted: 0 },
        }
    }
}

impl std::fmt::Debug for UndoRecord {
    /// Prints the resources without values, because a value may be a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let references = self.changes.iter().map(ChangeRecord::reference).collect::<Vec<_>>();
        f.debug_struct("UndoRecord").field("changes", &references).finish_non_exhaustive()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    /// No record with this id: never made here, or already deleted.
    #[error("there is no undo record for change `{id}`; this node keeps the last {MAX_RECORDS}")]
    Unknown { id: String },
    #[error(
        "there is an undo record for change `{id}` already; send the request again with a new id"
    )]
    Exists { id: String },
    #[error("the record of change `{id}` is damaged")]
    Damaged {
        id: String,
        /// The parser's error with its position.
        #[source]
        source: serde_json::Error,
    },
    #[error("the change of {resource} cannot be undone: {obstacle}")]
    Impossible {
        /// `Exec[x]`.
        resource: String,
        obstacle: String,
    },
    #[error("cannot read or write the undo records")]
    State(#[from] SystemError),
}

impl ChangeRecord {
    pub(crate) fn reference(&self) -> String {
        format_reference(&self.type_name, &self.title)
    }
}

impl UndoRecord {
    /// Records what the plans will replace. Reads the content of files that are about to be replaced.
    pub fn from_plans(engine: &ResourceEngine, plans: &[&ResourcePlan]) -> Self {
        let cx = engine.resource_context(CancelFlag::default());
        let mut content_budget = MAX_CONTENT_BYTES;
        let record =
            |plan: &&ResourcePlan| inverse::record_change(engine, &cx, plan, &mut content_budget);
        let changes: Vec<ChangeRecord> = plans.iter().take(MAX_CHANGES).map(record).collect();
        Self { omitted: plans.len() - changes.len(), changes }
    }

    /// Records what the changes left, so that an undo can tell later edits from them.
    pub fn record_result(&mut self, engine: &ResourceEngine) {
        // A new context: nothing read before the changes is reused.
        let cx = engine.resource_context(CancelFlag::default());
        for change in &mut self.changes {
            inverse::record_result(engine, &cx, change);
        }
    }

    /// What has to be restored, in this order: the last change first.
    pub fn into_targets(self) -> Result<Vec<RestoreTarget>, UndoError> {
        let is_impossible = self.changes.iter().all(|change| change.attributes.is_none());
        if let Some(first) = self.changes.first().filter(|_| is_impossible) {
            return Err(UndoError::Impossible {
                resource: first.reference(),
                obstacle: first.obstacle.clone().unwrap_or_default(),
            });
        }
        Ok(restore::list_targets(self.changes, self.omitted))
    }

    /// Durable on return.
    pub fn save(&self, state: &StateDir, id: &str) -> Result<(), UndoError> {
        state.replace_record(&record_path(id), self)?;
        let mut names = state.list_names(UNDO_DIRECTORY)?;
        // Names are UUIDs of version 7, which sort by time.
        names.sort_unstable();
        let surplus = names.len().saturating_sub(MAX_RECORDS);
        for name in names.iter().take(surplus) {
            state.remove_file(&format!("{UNDO_DIRECTORY}/{name}"))?;
        }
        Ok(())
    }

    /// Whether there is a record under the id of a request. Senders choose the ids of their requests, and must not replace the record of another one.
    pub fn exists(state: &StateDir, id: &str) -> Result<bool, UndoError> {
        Ok(state.list_names(UNDO_DIRECTORY)?.iter().any(|name| name == id))
    }

    pub fn load(state: &StateDir, id: &str) -> Result<Self, UndoError> {
        let unknown = || UndoError::Unknown { id: id.to_owned() };
        let is_id_char = |c: char| c.is_ascii_hexdigit() || c == '-';
        if id.is_empty() || id.len() > 64 || !id.chars().all(is_id_char) {
            return Err(unknown());
        }
        let content = state.read_file(&record_path(id), MAX_RECORD_BYTES)?.ok_or_else(unknown)?;
        serde_json::from_slice(&content)
            .map_err(|source| UndoError::Damaged { id: id.to_owned(), source })
    }
}

fn record_path(id: &str) -> String {
    format!("{UNDO_DIRECTORY}/{id}")
}

/// The resource with only the attributes that locate it on the machine, so that reading it returns its full state.
pub(crate) fn location_of(
    engine: &ResourceEngine,
    type_name: &str,
    title: &str,
    attributes: &Map<String, Json>,
) -> crate::error::Result<Resource> {
    let mut location = engine.empty_resource(type_name, title)?;
    let schema = engine.type_schema(type_name)?;
    let names = attributes.iter().filter(|(name, _)| inverse::is_location(type_name, name));
    let kept: Map<String, Json> =
        names.map(|(name, value)| (name.clone(), value.clone())).collect();
    let munged = crate::munge::munge_resource(schema, title, &kept)?;
    for name in kept.keys() {
        if let Some(value) = munged.get(name) {
            location.set_value(name, value.clone());
        }
    }
    location.name = munged.name;
    Ok(location)
}
