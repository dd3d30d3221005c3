//! Records of replaced state, so that changes can be undone.
//!
//! Before a change is made, the current property values are recorded, and the content of a file that is about to
//! be replaced. Undo applies the recorded state as an ordinary resource, so it can be planned, rejected and undone
//! itself. Executed commands and messages cannot be undone.

use std::path::Path;

use muster_system::{StateDir, System, SystemError};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use crate::plan::{ResourcePlan, is_absent};
use crate::providers::digest::ChecksumKind;
use crate::resource::{Resource, ResourceValue, ResourceValues};
use crate::state_store::replace_json_file;

/// Directory of the records in the state directory.
const UNDO_DIRECTORY: &str = "undo";
/// Maximum size of a record, in bytes.
const MAX_RECORD_BYTES: u64 = 16 * 1024 * 1024;
/// Maximum size of a file whose content is recorded, in bytes.
const MAX_CONTENT_BYTES: u64 = 8 * 1024 * 1024;
/// Maximum number of records; the oldest are deleted first.
const MAX_RECORDS: usize = 1000;

/// The state replaced by one change.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct UndoRecord {
    /// The type of the resource.
    pub type_name: String,
    /// Its title.
    pub title: String,
    /// Attributes that restore the previous state, in command-line syntax; `None` if that is impossible.
    #[serde(rename = "words")]
    attributes: Option<Map<String, Json>>,
    /// Why the change cannot be undone.
    obstacle: Option<String>,
}

impl std::fmt::Debug for UndoRecord {
    /// Prints attribute names without values, because a value may be a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Record")
            .field("type_name", &self.type_name)
            .field("title", &self.title)
            .finish_non_exhaustive()
    }
}

/// Reasons why a change cannot be undone.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    /// No record with this id: never made here, or already deleted.
    #[error("there is no undo record for change `{id}`; this node keeps the last {MAX_RECORDS}")]
    Unknown {
        /// The requested id.
        id: String,
    },
    /// The record is damaged.
    #[error("the record of change `{id}` is damaged")]
    Damaged {
        /// The requested id.
        id: String,
        /// The parser's error with its position.
        #[source]
        source: serde_json::Error,
    },
    /// The previous state cannot be restored.
    #[error("the change of {resource} cannot be undone: {obstacle}")]
    Impossible {
        /// `Exec[x]`.
        resource: String,
        /// The reason.
        obstacle: String,
    },
    /// The state directory is unusable.
    #[error("cannot read or write the undo records")]
    State(#[from] SystemError),
}

impl UndoRecord {
    /// Records what the plan will replace. Reads the content of a file that is about to be replaced.
    pub fn from_plan(system: &dyn System, plan: &ResourcePlan) -> Self {
        let Resource { type_name, title, .. } = plan.resource.clone();
        let (attributes, obstacle) = match inverse_values(system, plan) {
            Ok(attributes) => (Some(attributes), None),
            Err(obstacle) => (None, Some(obstacle.to_string())),
        };
        Self { type_name, title, attributes, obstacle }
    }

    /// The attributes that restore the previous state.
    pub fn into_values(self) -> Result<Map<String, Json>, UndoError> {
        let Self { type_name, title, attributes, obstacle } = self;
        attributes.ok_or_else(|| UndoError::Impossible {
            resource: crate::resource::format_reference(&type_name, &title),
            obstacle: obstacle.unwrap_or_default(),
        })
    }

    /// Saves the record under the id of the change. Durable on return.
    pub fn save(&self, state: &StateDir, id: &str) -> Result<(), UndoError> {
        replace_json_file(state, &record_path(id), self)?;
        let mut names = state.list_names(UNDO_DIRECTORY)?;
        // Names are UUIDs of version 7, which sort by time.
        names.sort_unstable();
        let surplus = names.len().saturating_sub(MAX_RECORDS);
        for name in names.iter().take(surplus) {
            state.remove_file(&format!("{UNDO_DIRECTORY}/{name}"))?;
        }
        Ok(())
    }

    /// Loads the record of a change.
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

/// Why there is no previous state to restore.
#[derive(Debug, thiserror::Error)]
enum UndoObstacle {
    #[error("the effect of a resource of type {0} is unknown")]
    UnknownEffect(String),
    #[error("`{0}` was not set before")]
    NotSet(String),
    #[error("its content could not be saved: {0}")]
    Unsaved(#[from] SystemError),
    #[error(
        "its content was not UTF-8 (sha256 {0}); it is in the filebucket, if the resource has one"
    )]
    NotText(String),
}

/// The attributes that restore the previous state, or the reason why there are none.
fn inverse_values(
    system: &dyn System,
    plan: &ResourcePlan,
) -> Result<Map<String, Json>, UndoObstacle> {
    let resource = &plan.resource;
    if matches!(resource.type_name.as_str(), "exec" | "notify" | "tidy" | "resources") {
        return Err(UndoObstacle::UnknownEffect(resource.type_name.clone()));
    }
    let mut attributes = kept_parameters(resource);
    let ensure = plan.changes.iter().find(|change| change.property == "ensure");
    if let Some(change) = ensure {
        if change.from.as_ref().is_none_or(is_absent) {
            attributes.insert("ensure".to_owned(), Json::from("absent"));
            return Ok(attributes);
        }
        for (name, value) in restorable_values(&plan.state.values) {
            attributes.insert(name.to_owned(), Json::from(value));
        }
    } else {
        for change in &plan.changes {
            let name = &change.property;
            let from = change.from.as_ref().ok_or_else(|| UndoObstacle::NotSet(name.clone()))?;
            attributes.insert(name.clone(), Json::from(from));
        }
    }
    if resource.type_name == "file" {
        add_file_content(system, resource, &mut attributes)?;
    }
    Ok(attributes)
}

/// Parameters needed to locate and change the resource.
fn kept_parameters(resource: &Resource) -> Map<String, Json> {
    let parameters = ["path", "target", "provider", "user", "force", "name"];
    let names = parameters.iter().filter(|name| resource.type_name != "file" || **name != "target");
    names.filter_map(|name| Some(((*name).to_owned(), Json::from(resource.get(name)?)))).collect()
}

/// Values found, without read-only ones such as times and the kind of file.
fn restorable_values(values: &ResourceValues) -> impl Iterator<Item = (&str, &ResourceValue)> {
    let read_only = ["ctime", "mtime", "type", "status"];
    values
        .iter()
        .map(|(name, value)| (name.as_str(), value))
        .filter(move |(name, value)| !read_only.contains(name) && !is_absent(value))
}

/// Replaces the checksum of a file by its content.
fn add_file_content(
    system: &dyn System,
    resource: &Resource,
    attributes: &mut Map<String, Json>,
) -> Result<(), UndoObstacle> {
    let path = Path::new(&resource.name);
    let replaced = attributes.remove("content").is_some();
    let removed = attributes.get("ensure").is_some_and(|ensure| ensure == "file");
    if !replaced && !removed {
        return Ok(());
    }
    let bytes = system.read_file(path, MAX_CONTENT_BYTES)?;
    let text = String::from_utf8(bytes).map_err(|error| {
        UndoObstacle::NotText(ChecksumKind::Sha256.hex_checksum(error.as_bytes()))
    })?;
    attributes.insert("content".to_owned(), Json::from(text));
    Ok(())
}
