//! The parts of a converted document, in the layout and order of a JSON DDL.

use serde::Serialize;
use serde::ser::Serializer;
use serde_json::Value;

/// `metadata`.
#[derive(Debug, Default, Serialize)]
pub(super) struct MetadataEntry {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) author: String,
    pub(super) license: String,
    pub(super) version: String,
    pub(super) url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) timeout: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) provider: Option<&'static str>,
}

/// One of `actions`.
#[derive(Debug, Serialize)]
pub(super) struct ActionEntry {
    pub(super) action: String,
    pub(super) description: String,
    pub(super) display: String,
    pub(super) class: &'static str,
    #[serde(serialize_with = "serialize_entries")]
    pub(super) input: NamedEntries<InputEntry>,
    #[serde(serialize_with = "serialize_entries")]
    pub(super) output: NamedEntries<OutputEntry>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) aggregate: Vec<AggregateEntry>,
}

/// An input, or the query of a data source.
#[derive(Debug, Default, Serialize)]
pub(super) struct InputEntry {
    pub(super) prompt: String,
    pub(super) description: String,
    #[serde(rename = "type")]
    pub(super) value_type: String,
    pub(super) optional: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) default: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) validation: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) maxlength: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) list: Vec<String>,
}

/// An output.
#[derive(Debug, Default, Serialize)]
pub(super) struct OutputEntry {
    pub(super) description: String,
    pub(super) display_as: String,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub(super) value_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) default: Option<Value>,
}

/// A summary.
#[derive(Debug, Serialize)]
pub(super) struct AggregateEntry {
    pub(super) function: String,
    pub(super) args: Vec<Value>,
}

/// The DDL of an agent.
#[derive(Debug, Serialize)]
pub(super) struct AgentEntry<'a> {
    pub(super) metadata: &'a MetadataEntry,
    pub(super) actions: &'a [ActionEntry],
}

/// The DDL of a data source.
#[derive(Debug, Serialize)]
pub(super) struct DataEntry<'a> {
    pub(super) metadata: &'a MetadataEntry,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) query: Option<&'a InputEntry>,
    #[serde(serialize_with = "serialize_entries")]
    pub(super) output: &'a NamedEntries<OutputEntry>,
}

/// Definitions by name, in the order of the file.
pub(super) type NamedEntries<T> = Vec<(String, T)>;

fn serialize_entries<T: Serialize, S: Serializer>(
    entries: impl AsRef<[(String, T)]>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(entries.as_ref().iter().map(|(name, entry)| (name, entry)))
}
