//! What changes replaced, kept so that they can be taken back.
//!
//! Before a change is made, what was found is written down: the values of the properties, and the content of a file that is about to
//! be replaced. Taking back is applying what was there before, as any other resource; so it can be planned, refused, and taken back
//! in turn. What ran a command, or said something, cannot be taken back.

use std::path::Path;

use muster_system::{StateDir, System, SystemError};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use crate::plan::{ResourcePlan, is_absent};
use crate::providers::digest::ChecksumKind;
use crate::resource::{Resource, ResourceValue, ResourceValues};

/// The directory of the records in the state directory.
const UNDO_DIRECTORY: &str = "undo";
/// The largest record that is read, in bytes.
const MAX_RECORD_BYTES: u64 = 16 * 1024 * 1024;
/// The largest file whose content is kept, in bytes.
const MAX_CONTENT_BYTES: u64 = 8 * 1024 * 1024;
/// How many records are kept; the oldest go first.
const MAX_RECORDS: usize = 1000;

/// What one change replaced.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct UndoRecord {
    /// The type of the resource.
    pub type_name: String,
    /// Its title.
    pub title: String,
    /// What it takes to be as before, in the words of the command line; `None` when that cannot be said.
    words: Option<Map<String, Json>>,
    /// Why it cannot be taken back.
    obstacle: Option<String>,
}

impl std::fmt::Debug for UndoRecord {
    /// Names the words without showing them: a password may be among them.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Record")
            .field("type_name", &self.type_name)
            .field("title", &self.title)
            .finish_non_exhaustive()
    }
}

/// Why something cannot be taken back.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    /// Nothing of that name was done here, or too long ago.
    #[error("there is no change `{id}` here to take back; the last {MAX_RECORDS} are kept")]
    Unknown {
        /// What was asked for.
        id: String,
    },
    /// The record is damaged.
    #[error("the record of change `{id}` is damaged")]
    Damaged {
        /// What was asked for.
        id: String,
        /// Where.
        #[source]
        source: serde_json::Error,
    },
    /// It cannot be said what to do.
    #[error("{resource} cannot be taken back: {obstacle}")]
    Impossible {
        /// `Exec[x]`.
        resource: String,
        /// Why.
        obstacle: String,
    },
    /// The state directory cannot be used.
    #[error("what changes replaced cannot be kept or read")]
    State(#[from] SystemError),
}

impl UndoRecord {
    /// What the plan is about to replace. Reads the content of a file that is about to be replaced.
    pub fn from_plan(system: &dyn System, plan: &ResourcePlan) -> Self {
        let resource = &plan.resource;
        let (words, obstacle) = match inverse_values(system, plan) {
            Ok(words) => (Some(words), None),
            Err(obstacle) => (None, Some(obstacle)),
        };
        Self {
            type_name: resource.type_name.clone(),
            title: resource.title.clone(),
            words,
            obstacle,
        }
    }

    /// The words that bring back what was there.
    pub fn into_values(self) -> Result<Map<String, Json>, UndoError> {
        let Self {
            type_name,
            title,
            words,
            obstacle,
        } = self;
        words.ok_or_else(|| UndoError::Impossible {
            resource: crate::resource::format_reference(&type_name, &title),
            obstacle: obstacle.unwrap_or_default(),
        })
    }

    /// Writes the record down, for the change of that name. On the disk when this returns.
    pub fn save(&self, state: &StateDir, id: &str) -> Result<(), UndoError> {
        // Texts, numbers and lists only; serialising them cannot fail.
        let content = serde_json::to_vec(self).unwrap_or_default();
        state.replace_file(&record_path(id), &content)?;
        let mut names = state.list_names(UNDO_DIRECTORY)?;
        // Names begin with the instant, being UUIDs of version 7.
        names.sort_unstable();
        let surplus = names.len().saturating_sub(MAX_RECORDS);
        for name in names.iter().take(surplus) {
            state.remove_file(&format!("{UNDO_DIRECTORY}/{name}"))?;
        }
        Ok(())
    }

    /// The record of the change of that name.
    pub fn load(state: &StateDir, id: &str) -> Result<Self, UndoError> {
        let unknown = || UndoError::Unknown { id: id.to_owned() };
        let proper = |c: char| c.is_ascii_hexdigit() || c == '-';
        if id.is_empty() || id.len() > 64 || !id.chars().all(proper) {
            return Err(unknown());
        }
        let content = state
            .read_file(&record_path(id), MAX_RECORD_BYTES)?
            .ok_or_else(unknown)?;
        serde_json::from_slice(&content).map_err(|source| UndoError::Damaged {
            id: id.to_owned(),
            source,
        })
    }
}

fn record_path(id: &str) -> String {
    format!("{UNDO_DIRECTORY}/{id}")
}

/// The words that lead back. The error says why there are none.
fn inverse_values(system: &dyn System, plan: &ResourcePlan) -> Result<Map<String, Json>, String> {
    let resource = &plan.resource;
    if matches!(
        resource.type_name.as_str(),
        "exec" | "notify" | "tidy" | "resources"
    ) {
        return Err(format!(
            "what a resource of type {} did is not known",
            resource.type_name
        ));
    }
    let mut words = kept_parameters(resource);
    let ensure = plan
        .changes
        .iter()
        .find(|change| change.property == "ensure");
    if let Some(change) = ensure {
        if change.from.as_ref().is_none_or(is_absent) {
            words.insert("ensure".to_owned(), Json::from("absent"));
            return Ok(words);
        }
        for (name, value) in restorable_values(&plan.state.values) {
            words.insert(name.to_owned(), value_to_json(value));
        }
    } else {
        for change in &plan.changes {
            let name = &change.property;
            let from = change
                .from
                .as_ref()
                .ok_or_else(|| format!("`{name}` was not set before"))?;
            words.insert(name.clone(), value_to_json(from));
        }
    }
    if resource.type_name == "file" {
        add_file_content(system, resource, &mut words)?;
    }
    Ok(words)
}

/// What says where the resource is, and how to go about it.
fn kept_parameters(resource: &Resource) -> Map<String, Json> {
    let kept = ["path", "target", "provider", "user", "force", "name"];
    let names = kept
        .iter()
        .filter(|name| resource.type_name != "file" || **name != "target");
    names
        .filter_map(|name| Some(((*name).to_owned(), value_to_json(resource.get(name)?))))
        .collect()
}

/// Found values without what only says when and what kind a thing is.
fn restorable_values(values: &ResourceValues) -> impl Iterator<Item = (&str, &ResourceValue)> {
    let silent = ["ctime", "mtime", "type", "status"];
    values
        .iter()
        .map(|(name, value)| (name.as_str(), value))
        .filter(move |(name, value)| !silent.contains(name) && !is_absent(value))
}

/// A file's content is found as a checksum; the bytes are kept instead.
fn add_file_content(
    system: &dyn System,
    resource: &Resource,
    words: &mut Map<String, Json>,
) -> Result<(), String> {
    let path = Path::new(&resource.name);
    let replaced = words.remove("content").is_some();
    let removed = words.get("ensure").is_some_and(|ensure| ensure == "file");
    if !replaced && !removed {
        return Ok(());
    }
    let bytes = system
        .read_file(path, MAX_CONTENT_BYTES)
        .map_err(|error| format!("its content could not be kept: {error}"))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let sum = ChecksumKind::Sha256.hex_checksum(error.as_bytes());
        format!("its content was no text (sha256 {sum}); it is in the file bucket, if the resource has one")
    })?;
    words.insert("content".to_owned(), Json::from(text));
    Ok(())
}

fn value_to_json(value: &ResourceValue) -> Json {
    // Texts, numbers and lists; serialising them cannot fail.
    serde_json::to_value(value).unwrap_or_default()
}
