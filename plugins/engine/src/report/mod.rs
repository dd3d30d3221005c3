//! What a run did, in the structure of Puppet's reports (format 12), so that whatever reads those reads ours.
//!
//! A run tells what happens one [`RunEvent`] at a time; a report is what [`RunReportBuilder`] folds them into, and nothing else.
//! `metrics` counts, [`summary`] writes the small file that monitoring reads. One key is ours: `pending_refreshes`.

mod builder;
mod metrics;
pub mod summary;
mod timestamp;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value as Json;

pub use builder::RunReportBuilder;
pub use metrics::{MetricGroup, RunMetrics};
pub use timestamp::format_timestamp;

use crate::ledger::OwedRefresh;

/// The version of Puppet's report format that this is.
pub const REPORT_FORMAT_VERSION: u32 = 12;

/// Whose semantics the run followed, and who followed them; a semantic version, because readers parse it.
pub const REPORTED_PUPPET_VERSION: &str = concat!("7.23.0+muster.", env!("CARGO_PKG_VERSION"));

/// How loud a line of the log is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RunLogLevel {
    /// Only for who looks for a fault.
    Debug,
    /// What goes on.
    Info,
    /// What was changed.
    Notice,
    /// What may be wrong.
    Warning,
    /// What went wrong.
    Err,
    /// Louder than an error.
    Alert,
    /// Louder still.
    Emerg,
    /// As loud as can be.
    Crit,
}

impl RunLogLevel {
    /// The level of a `loglevel`; `verbose` is what Puppet calls `info` there.
    pub fn from_loglevel(word: &str) -> Option<Self> {
        Some(match word {
            "debug" => Self::Debug,
            "info" | "verbose" => Self::Info,
            "notice" => Self::Notice,
            "warning" => Self::Warning,
            "err" => Self::Err,
            "alert" => Self::Alert,
            "emerg" => Self::Emerg,
            "crit" => Self::Crit,
            _ => return None,
        })
    }

    /// The word for it in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Err => "err",
            Self::Alert => "alert",
            Self::Emerg => "emerg",
            Self::Crit => "crit",
        }
    }
}

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunLogEntry {
    /// How loud.
    pub level: RunLogLevel,
    /// What is said.
    pub message: String,
    /// Who says it: `Puppet`, or `/Stage[main]/Main/File[/etc/motd]/ensure`.
    pub source: String,
    /// The level, and the tags of the resource.
    pub tags: Vec<String>,
    /// When.
    pub time: String,
    /// Where the resource was written.
    pub file: Option<String>,
    /// In which line.
    pub line: Option<u64>,
}

/// What happened to one property, or to a resource as a whole.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ResourceEvent {
    /// Whether it is only recorded, not wanted otherwise.
    pub audited: bool,
    /// `ensure`, `content`; null for a refresh or a failure of the whole.
    pub property: Option<String>,
    /// What was found.
    pub previous_value: Json,
    /// What is desired.
    pub desired_value: Json,
    /// What was found by an earlier audit.
    pub historical_value: Json,
    /// In Puppet's words.
    pub message: String,
    /// `file_created`, `refresh`, `resource_error`.
    pub name: String,
    /// `success`, `failure`, `noop`, `audit`.
    pub status: &'static str,
    /// When.
    pub time: String,
    /// Whether the values were hidden.
    pub redacted: Option<bool>,
    /// Whether somebody else had changed what an earlier run had brought about.
    pub corrective_change: bool,
}

/// How one resource fared.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "the layout is Puppet's")]
pub struct ResourceStatus {
    /// Its title.
    pub title: String,
    /// Where it was written.
    pub file: Option<String>,
    /// In which line.
    pub line: Option<u64>,
    /// `File[/etc/motd]`.
    pub resource: String,
    /// `File`.
    pub resource_type: String,
    /// The provider at work.
    pub provider_used: Option<String>,
    /// Its containers, outermost first, and itself.
    pub containment_path: Vec<String>,
    /// Seconds; null when it was skipped.
    pub evaluation_time: Option<f64>,
    /// Its tags.
    pub tags: Vec<String>,
    /// When its turn came.
    pub time: String,
    /// Something went wrong.
    pub failed: bool,
    /// A refresh went wrong.
    pub failed_to_restart: bool,
    /// Something was changed.
    pub changed: bool,
    /// Something was not as desired.
    pub out_of_sync: bool,
    /// It was not looked at.
    pub skipped: bool,
    /// How many changes.
    pub change_count: u64,
    /// How many properties were not as desired.
    pub out_of_sync_count: u64,
    /// One by one.
    pub events: Vec<ResourceEvent>,
    /// Whether one of the changes was corrective.
    pub corrective_change: bool,
    /// It was refreshed.
    #[serde(skip)]
    pub restarted: bool,
}

impl ResourceStatus {
    /// Takes in an event, and what it says of the whole, as Puppet does.
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

/// What a run tells while it goes on.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum RunEvent {
    /// The first.
    Start(RunStart),
    /// Somebody has something to say.
    Log(RunLogEntry),
    /// A resource has been seen to.
    Resource(Box<ResourceStatus>),
    /// The last.
    End(RunEnd),
}

/// What is known before anything is done.
#[derive(Debug, Clone, Serialize)]
pub struct RunStart {
    /// The machine.
    pub host: String,
    /// When.
    pub time: String,
    /// Of the catalog.
    pub configuration_version: Json,
    /// Of the run.
    pub transaction_uuid: String,
    /// Puppet's environment.
    pub environment: String,
    /// Whether nothing is to be changed.
    pub noop: bool,
    /// Of the catalog.
    pub catalog_uuid: Option<String>,
    /// Of the code.
    pub code_id: Option<String>,
    /// How many resources the catalog has.
    pub resources: usize,
}

/// What is known when everything is done.
#[derive(Debug, Clone, Serialize)]
pub struct RunEnd {
    /// When.
    pub time: String,
    /// Whether every resource had its turn.
    pub transaction_completed: bool,
    /// Whether some resource could not say what it brings with it.
    pub failed_to_generate: bool,
    /// Seconds for all resources.
    pub transaction_evaluation: f64,
    /// Seconds for the whole.
    pub total: f64,
    /// What is still owed.
    pub pending_refreshes: Vec<OwedRefresh>,
}

/// What a run did.
#[derive(Debug, Clone, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "the layout is Puppet's")]
pub struct RunReport {
    /// The machine.
    pub host: String,
    /// When it began.
    pub time: String,
    /// Of the catalog.
    pub configuration_version: Json,
    /// Of the run.
    pub transaction_uuid: String,
    /// [`REPORT_FORMAT_VERSION`].
    pub report_format: u32,
    /// [`REPORTED_PUPPET_VERSION`].
    pub puppet_version: String,
    /// `failed`, `changed` or `unchanged`; `changed` too while a refresh is owed.
    pub status: &'static str,
    /// Whether every resource had its turn.
    pub transaction_completed: bool,
    /// Whether nothing was to be changed.
    pub noop: bool,
    /// Whether something would have been changed.
    pub noop_pending: bool,
    /// Puppet's environment.
    pub environment: String,
    /// What was said.
    pub logs: Vec<RunLogEntry>,
    /// What was counted.
    pub metrics: RunMetrics,
    /// One by one, in the order in which they were seen to.
    #[serde(serialize_with = "serialize_by_name")]
    pub resource_statuses: Vec<ResourceStatus>,
    /// Whether a change was corrective.
    pub corrective_change: bool,
    /// Of the catalog.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catalog_uuid: Option<String>,
    /// Of the code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code_id: Option<String>,
    /// Refreshes that are still owed. Not in Puppet's reports.
    pub pending_refreshes: Vec<OwedRefresh>,
}

impl RunReport {
    /// Puppet's detailed exit code: 2 for changes, 4 for failures, their sum for both, 1 when the run itself failed; and 2 while
    /// a refresh is owed, because then the machine is not as described.
    pub fn exit_code(&self) -> u8 {
        if !self.transaction_completed {
            return 1;
        }
        let failed = |status: &ResourceStatus| status.failed || status.failed_to_restart;
        let changed = self
            .resource_statuses
            .iter()
            .any(|status| status.change_count > 0);
        let mut code = 0;
        if changed || !self.pending_refreshes.is_empty() {
            code |= 2;
        }
        if self.resource_statuses.iter().any(failed) {
            code |= 4;
        }
        code
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
