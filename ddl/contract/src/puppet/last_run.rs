//! What Puppet itself says about its last run: `last_run_summary` and `last_run_report`.

use std::collections::BTreeMap;

use muster_ddl::{Action, ActionProperties};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{PuppetAgent, PuppetRunClass};

/// Report Puppet's summary of its last run.
#[derive(Debug, JsonSchema)]
pub struct PuppetLastRunSummary;

impl Action for PuppetLastRunSummary {
    type Agent = PuppetAgent;
    const NAME: &'static str = "last_run_summary";
    type Input = LastRunSummaryInput;
    type Output = LastRunSummaryOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().summary("class").examples(include_str!("last_run_summary.json"))
    }
}

/// Inputs of `last_run_summary`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LastRunSummaryInput {
    /// Whether to include the log of the report.
    #[schemars(extend("x-default" = false))]
    pub logs: bool,
}

/// Outputs of `last_run_summary`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LastRunSummaryOutput {
    /// Number of resources that were not in the described state.
    pub out_of_sync_resources: Option<u64>,
    /// Number of failed resources, including failed refreshes.
    pub failed_resources: Option<u64>,
    /// Number of corrective changes, which undid changes made outside of Puppet.
    pub corrected_resources: Option<u64>,
    /// Number of changed resources.
    pub changed_resources: Option<u64>,
    /// Number of resources in the catalog.
    pub total_resources: Option<u64>,
    /// Seconds to retrieve the catalog.
    pub config_retrieval_time: Option<f64>,
    /// Duration of the run in seconds.
    pub total_time: Option<f64>,
    /// The last 500 lines of the report's log.
    #[schemars(title = "Log")]
    pub logs: Vec<String>,
    /// End of the run, in seconds since the epoch.
    #[schemars(title = "Last Run")]
    pub lastrun: Option<u64>,
    /// Seconds since the last run.
    #[schemars(title = "Since Last Run")]
    pub since_lastrun: Option<u64>,
    /// The version of the catalog.
    pub config_version: Option<String>,
    /// Number of resources of each type.
    pub type_distribution: BTreeMap<String, u64>,
    /// The unchanged values of the summary.
    pub summary: Map<String, Value>,
    /// Whether the run as a whole failed, for example without a catalog; all its counters are then 0.
    pub failed_run: bool,
    /// The outcome, as in `runonce`.
    #[schemars(with = "Option<String>")]
    pub class: Option<PuppetRunClass>,
    /// The environment of the catalog.
    pub environment: Option<String>,
    /// `not_used`, `explicitly_requested` or `on_failure`.
    #[schemars(title = "Cached Catalog")]
    pub cached_catalog_status: Option<String>,
}

/// Report the content of Puppet's report of its last run.
#[derive(Debug, JsonSchema)]
pub struct PuppetLastRunReport;

impl Action for PuppetLastRunReport {
    type Agent = PuppetAgent;
    const NAME: &'static str = "last_run_report";
    type Input = LastRunReportInput;
    type Output = LastRunReportOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().summary("class").examples(include_str!("last_run_report.json"))
    }
}

/// Inputs of `last_run_report`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LastRunReportInput {
    /// Whether to include the log.
    #[schemars(extend("x-default" = false))]
    pub logs: bool,
}

/// Outputs of `last_run_report`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LastRunReportOutput {
    /// `changed`, `unchanged` or `failed`.
    pub status: String,
    /// The outcome, as in `runonce`.
    pub class: String,
    /// The id of the report.
    #[schemars(title = "Transaction")]
    pub transaction_uuid: Option<String>,
    /// Whether the whole catalog was processed.
    #[schemars(title = "Completed")]
    pub transaction_completed: Option<bool>,
    /// Start of the run, from the report.
    pub time: Option<String>,
    /// The environment of the catalog.
    pub environment: Option<String>,
    /// The version of the catalog.
    pub config_version: Option<String>,
    /// Whether the run only reported what it would change.
    #[schemars(title = "Noop")]
    pub noop: Option<bool>,
    /// Whether the run would have changed anything.
    pub noop_pending: Option<bool>,
    /// `not_used`, `explicitly_requested` or `on_failure`.
    #[schemars(title = "Cached Catalog")]
    pub cached_catalog_status: Option<String>,
    /// Puppet's version.
    pub puppet_version: Option<String>,
    /// What changed or failed: resource, property, status, message; at most 500.
    pub events: Vec<PuppetResourceEvent>,
    /// The failed resources, at most 500.
    #[schemars(title = "Failed Resources")]
    pub failed: Vec<String>,
    /// The skipped resources, at most 500.
    #[schemars(title = "Skipped Resources")]
    pub skipped: Vec<String>,
    /// The metrics of the report, by name.
    pub metrics: Map<String, Value>,
    /// The last 500 lines of the log.
    #[schemars(title = "Log")]
    pub logs: Vec<String>,
}

/// What happened to a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PuppetResourceEvent {
    /// The resource.
    pub resource: String,
    /// The property; absent if the event is about the whole resource.
    pub property: Option<String>,
    /// `success`, `failure`, `noop` or `audit`.
    pub status: String,
    /// The event in a sentence.
    pub message: String,
}
