//! What happened on a node, as it happens: audit records, and the events of runs. A node sends them in order to the bucket `HISTORY`, under its name.
//!
//! A process of the node writes one or more *segments*, whose records are numbered from 1. A segment names the one before it, so a missing record and
//! a missing segment are noticed. What a record says of a run has the names of Puppet's report format 12; [`fold_run`] makes the report of its events.

mod fold;

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

pub use fold::{FoldedRun, fold_run};

use crate::Millis;
use crate::compressed::{CompressedJsonError, compress_json, decompress_json};
use crate::identity::Identity;
use crate::limits::{MAX_HISTORY_BATCH_BYTES, MAX_HISTORY_RECORD_BYTES, MAX_HISTORY_TEXT_BYTES};

/// The engine of a run that Puppet executes, see [`RunCause::engine`].
pub const PUPPET_ENGINE: &str = "puppet";
/// The engine of a run that the daemon executes.
pub const OWN_ENGINE: &str = "muster";

/// Longest text of a record that is too large, in bytes; the rest is cut off.
const MAX_SHORTENED_BYTES: usize = 1024;
/// Values of a record that is too large even so.
const MAX_SHORT_VALUES: usize = 56;
/// Elements of each list and map in a record that is too large.
const MAX_SHORTENED_ITEMS: usize = 8;

/// The body of a signed message with records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryBatch {
    /// The name in the node's token, repeated here because the body is signed.
    pub sender: Identity,
    /// The segment that the records belong to.
    pub segment: Uuid,
    /// The segment before; `None` for the first one of a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<Uuid>,
    /// A compressed list of [`HistoryRecord`].
    pub records: String,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HistoryRecord {
    /// Its number in the segment, from 1.
    pub seq: u64,
    /// When it happened, by the node's clock, in milliseconds since the epoch.
    pub time: Millis,
    /// The number of the event in its run, from 0. An event that is recorded again, because the daemon was restarted during the run, has the same number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// What happened.
    #[serde(flatten)]
    pub event: HistoryEvent,
}

/// What happened. Unknown kinds are kept as [`HistoryEvent::Unknown`], so that newer nodes can add some.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum HistoryEvent {
    /// A line of the audit log of changes, or of refusals, as it is on the node.
    Audit {
        /// Whether the request was refused.
        #[serde(default)]
        refused: bool,
        /// The line.
        line: Map<String, Value>,
    },
    /// A run began.
    Start {
        /// Id of the run.
        run: Uuid,
        /// Why it runs.
        #[serde(flatten)]
        cause: RunCause,
        /// The fields of the report that are known: `host`, `time`, `environment`, `noop`.
        report: Map<String, Value>,
    },
    /// A run logged a message.
    Log {
        /// Id of the run.
        run: Uuid,
        /// An element of the report's `logs`.
        log: Map<String, Value>,
    },
    /// A resource was evaluated.
    Resource {
        /// Id of the run, or of the request that changed the resource.
        run: Uuid,
        /// A value of the report's `resource_statuses`.
        status: Map<String, Value>,
    },
    /// A run ended.
    End {
        /// Id of the run.
        run: Uuid,
        /// The report without its logs and resources.
        report: Map<String, Value>,
    },
    /// A run was cut off: its process was killed, or the machine was.
    Aborted {
        /// Id of the run.
        run: Uuid,
        /// Why, if it is known.
        reason: String,
    },
    /// A kind of a newer version.
    #[serde(other)]
    Unknown,
}

/// Who or what began a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunCause {
    /// What applies the catalog: [`OWN_ENGINE`] or [`PUPPET_ENGINE`].
    pub engine: String,
    /// The request that began it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub request: Option<Uuid>,
    /// The user who sent the request, or who promoted the release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// The release whose catalog is applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// The address of the catalog.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog: Option<String>,
}

impl RunCause {
    /// Whether the run goes on when the daemon ends: Puppet has a process of its own.
    pub fn outlives_daemon(&self) -> bool {
        self.engine == PUPPET_ENGINE
    }
}

impl HistoryEvent {
    /// The run that it belongs to.
    pub fn run(&self) -> Option<Uuid> {
        match self {
            Self::Start { run, .. }
            | Self::Log { run, .. }
            | Self::Resource { run, .. }
            | Self::End { run, .. }
            | Self::Aborted { run, .. } => Some(*run),
            Self::Audit { .. } | Self::Unknown => None,
        }
    }

    /// Shortens long texts, lists and maps if the event is too large for a record. What was cut off is counted in its place.
    #[must_use]
    pub fn shortened(mut self) -> Self {
        let is_small = serde_json::to_vec(&self)
            .is_ok_and(|text| text.len() <= MAX_HISTORY_RECORD_BYTES - 128);
        if !is_small {
            match &mut self {
                Self::Audit { line: map, .. }
                | Self::Start { report: map, .. }
                | Self::Log { log: map, .. }
                | Self::Resource { status: map, .. }
                | Self::End { report: map, .. } => shorten_map(map),
                Self::Aborted { reason, .. } => shorten_text(reason),
                Self::Unknown => {}
            }
        }
        self
    }
}

fn shorten_map(map: &mut Map<String, Value>) {
    map.values_mut().for_each(shorten_value);
    let is_small = |map: &Map<String, Value>| {
        serde_json::to_vec(map).is_ok_and(|text| text.len() <= MAX_HISTORY_RECORD_BYTES - 512)
    };
    if !is_small(map) {
        // Only short values are left, of which no record of ours has this many.
        let is_short =
            |value: &Value| serde_json::to_vec(value).is_ok_and(|text| text.len() <= 256);
        map.retain(|key, value| key.len() <= 64 && is_short(value));
        keep_first(map, MAX_SHORT_VALUES);
    }
}

fn shorten_value(value: &mut Value) {
    match value {
        Value::String(text) => shorten_text(text),
        Value::Array(items) => {
            let more = items.len().saturating_sub(MAX_SHORTENED_ITEMS);
            items.truncate(MAX_SHORTENED_ITEMS);
            items.iter_mut().for_each(shorten_value);
            if more > 0 {
                items.push(Value::String(format!("({more} more)")));
            }
        }
        Value::Object(map) => {
            keep_first(map, MAX_SHORTENED_ITEMS * 4);
            map.values_mut().for_each(shorten_value);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn keep_first(map: &mut Map<String, Value>, count: usize) {
    let surplus: Vec<String> = map.keys().skip(count).cloned().collect();
    for key in surplus {
        map.remove(&key);
    }
}

fn shorten_text(text: &mut String) {
    if text.len() > MAX_SHORTENED_BYTES {
        let bytes = text.len();
        text.truncate(text.floor_char_boundary(MAX_SHORTENED_BYTES));
        let _ = write!(text, "… ({bytes} bytes)");
    }
}

/// As many of these records as fit into one message, compressed, and how many these are: at least one, if there is one.
pub fn compress_records(records: &[HistoryRecord]) -> Result<(String, usize), CompressedJsonError> {
    let mut count = records.len();
    loop {
        let text = compress_json(records.get(..count).unwrap_or_default())?;
        if text.len() <= MAX_HISTORY_TEXT_BYTES || count <= 1 {
            return Ok((text, count));
        }
        count = count.div_ceil(2);
    }
}

/// Reads the records of a message.
pub fn decompress_records(text: &str) -> Result<Vec<HistoryRecord>, CompressedJsonError> {
    decompress_json(text, MAX_HISTORY_BATCH_BYTES)
}

#[cfg(test)]
mod tests;
