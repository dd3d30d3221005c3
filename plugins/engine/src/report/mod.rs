//! Run reports in Puppet's report format 12, so that existing report processors can read them.
//!
//! A run emits one [`RunEvent`] at a time; [`RunReportBuilder`] builds the report from these events only.
//! `metrics` computes the counters, [`summary`] writes the summary file for monitoring. One key is an extension: `pending_refreshes`.

mod builder;
mod metrics;
pub mod summary;
mod timestamp;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value as Json;

pub use builder::RunReportBuilder;
pub use metrics::{MetricGroup, RunMetrics};
pub use timestamp::{format_timestamp, parse_timestamp};

use crate::ledger::OwedRefresh;
use crate::resource::Resource;

/// The version of Puppet's report format.
pub const REPORT_FORMAT_VERSION: u32 = 12;

/// The Puppet version whose semantics apply, plus our own version; a semantic version, because report readers parse it.
pub const REPORTED_PUPPET_VERSION: &str = concat!("7.23.0+muster.", env!("CARGO_PKG_VERSION"));

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RunLogLevel {
    Debug,
    Info,
    /// A change.
    Notice,
    Warning,
    Err,
    /// More severe than an error, as in Puppet's order.
    Alert,
    /// More severe than `alert`.
    Emerg,
    /// The most severe level.
    Crit,
}

const LOG_LEVEL_NAMES: [(RunLogLevel, &str); 8] = [
    (RunLogLevel::Debug, "debug"),
    (RunLogLevel::Info, "info"),
    (RunLogLevel::Notice, "notice"),
    (RunLogLevel::Warning, "warning"),
    (RunLogLevel::Err, "err"),
    (RunLogLevel::Alert, "alert"),
    (RunLogLevel::Emerg, "emerg"),
    (RunLogLevel::Crit, "crit"),
];

impl RunLogLevel {
    /// The level of changes of a resource: its `loglevel`, where Puppet accepts `verbose` as `info`.
    pub(crate) fn from_resource(resource: &Resource) -> Self {
        let word = resource.get_text("loglevel").unwrap_or("notice");
        let known = LOG_LEVEL_NAMES.iter().find(|(_, name)| *name == word);
        let default = if word == "verbose" { Self::Info } else { Self::Notice };
        known.map_or(default, |(level, _)| *level)
    }

    pub fn as_str(self) -> &'static str {
        LOG_LEVEL_NAMES.iter().find(|(level, _)| *level == self).map_or("", |(_, name)| name)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunLogEntry {
    pub level: RunLogLevel,
    pub message: String,
    /// Origin: `Puppet`, or `/Stage[main]/Main/File[/etc/motd]/ensure`.
    pub source: String,
    /// The level and the tags of the resource.
    pub tags: Vec<String>,
    pub time: String,
    /// Source file of the resource definition.
    pub file: Option<String>,
    pub line: Option<u64>,
}

/// An event of one property, or of a resource as a whole.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ResourceEvent {
    /// Whether the property is only audited and has no desired value.
    pub audited: bool,
    /// `ensure`, `content`; null for a refresh or a failure of the whole resource.
    pub property: Option<String>,
    /// The value found.
    pub previous_value: Json,
    pub desired_value: Json,
    /// The value found by an earlier audit.
    pub historical_value: Json,
    /// Message with Puppet's wording.
    pub message: String,
    /// `file_created`, `refresh`, `resource_error`.
    pub name: String,
    /// `success`, `failure`, `noop`, `audit`.
    pub status: &'static str,
    pub time: String,
    /// Whether the values were hidden.
    pub redacted: Option<bool>,
    /// Whether the change reverts a modification made after an earlier run had applied the desired value.
    pub corrective_change: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "the layout is Puppet's")]
pub struct ResourceStatus {
    pub title: String,
    /// Source file of the definition.
    pub file: Option<String>,
    pub line: Option<u64>,
    /// `File[/etc/motd]`.
    pub resource: String,
    /// `File`.
    pub resource_type: String,
    pub provider_used: Option<String>,
    /// Its containers, outermost first, followed by itself.
    pub containment_path: Vec<String>,
    /// Seconds; null if skipped.
    pub evaluation_time: Option<f64>,
    pub tags: Vec<String>,
    /// Start of its evaluation.
    pub time: String,
    /// Evaluation failed.
    pub failed: bool,
    /// A refresh failed.
    pub failed_to_restart: bool,
    /// At least one property was changed.
    pub changed: bool,
    /// At least one property was out of sync.
    pub out_of_sync: bool,
    /// It was not evaluated.
    pub skipped: bool,
    pub change_count: u64,
    pub out_of_sync_count: u64,
    pub events: Vec<ResourceEvent>,
    /// Whether at least one change was corrective.
    pub corrective_change: bool,
    /// It was refreshed.
    #[serde(skip)]
    pub restarted: bool,
}

impl ResourceStatus {
    /// Whether its evaluation or its refresh failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed || self.failed_to_restart
    }

    /// Adds an event and updates the status flags and counters as Puppet does.
    pub fn add_event(&mut self, event: ResourceEvent) {
        match event.status {
            "failure" => self.failed = true,
            "success" => {
                self.changed = true;
                self.change_count += 1;
            }
            _ => {}
        }
        if event.status != "audit" {
            self.out_of_sync = true;
            self.out_of_sync_count += 1;
        }
        self.corrective_change |= event.corrective_change;
        self.events.push(event);
    }
}

#[derive(Debug, Clone, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum RunEvent {
    Start(RunStart),
    Log(RunLogEntry),
    /// A resource was evaluated.
    Resource(Box<ResourceStatus>),
    End(RunEnd),
}

/// Facts known before any evaluation.
#[derive(Debug, Clone, Serialize)]
pub struct RunStart {
    pub host: String,
    pub time: String,
    /// Configuration version of the catalog.
    pub configuration_version: Json,
    /// UUID of the run.
    pub transaction_uuid: String,
    pub environment: String,
    pub noop: bool,
    pub catalog_uuid: Option<String>,
    pub code_id: Option<String>,
    /// Number of resources in the catalog.
    pub resources: usize,
}

/// Facts known after the last evaluation.
#[derive(Debug, Clone, Serialize)]
pub struct RunEnd {
    pub time: String,
    /// Whether every resource was processed.
    pub transaction_completed: bool,
    /// Whether a resource failed to generate its additional resources.
    pub failed_to_generate: bool,
    /// Seconds spent on all resources.
    pub transaction_evaluation: f64,
    /// Seconds of the whole run.
    pub total: f64,
    pub pending_refreshes: Vec<OwedRefresh>,
}

#[derive(Debug, Clone, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "the layout is Puppet's")]
pub struct RunReport {
    pub host: String,
    /// Start time.
    pub time: String,
    /// Configuration version of the catalog.
    pub configuration_version: Json,
    /// UUID of the run.
    pub transaction_uuid: String,
    /// [`REPORT_FORMAT_VERSION`].
    pub report_format: u32,
    /// [`REPORTED_PUPPET_VERSION`].
    pub puppet_version: String,
    /// `failed`, `changed` or `unchanged`; also `changed` while a refresh is pending.
    pub status: &'static str,
    /// Whether every resource was processed.
    pub transaction_completed: bool,
    pub noop: bool,
    /// Whether noop mode suppressed a change.
    pub noop_pending: bool,
    pub environment: String,
    pub logs: Vec<RunLogEntry>,
    pub metrics: RunMetrics,
    /// Resource results in evaluation order.
    #[serde(serialize_with = "serialize_by_name")]
    pub resource_statuses: Vec<ResourceStatus>,
    /// Whether at least one change was corrective.
    pub corrective_change: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catalog_uuid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code_id: Option<String>,
    /// Not part of Puppet's format.
    pub pending_refreshes: Vec<OwedRefresh>,
}

impl RunReport {
    /// Puppet's detailed exit code: 2 for changes, 4 for failures, their sum for both, 1 if the run itself failed. Also 2 while
    /// a refresh is pending, because the machine is not in the desired state yet.
    pub fn exit_code(&self) -> u8 {
        if !self.transaction_completed {
            return 1;
        }
        let changed = self.resource_statuses.iter().any(|status| status.change_count > 0);
        let pending = !self.pending_refreshes.is_empty();
        // Also of a resource that could not generate others, which Puppet's exit code does not show.
        let failed = self.status == "failed";
        2 * u8::from(changed || pending) + 4 * u8::from(failed)
    }
}

fn serialize_by_name<S: Serializer>(
    statuses: &[ResourceStatus],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(statuses.len()))?;
    for status in statuses {
        map.serialize_entry(&status.resource, status)?;
    }
    map.end()
}
