//! The result of a run as a value that can be compared: a report without times.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::scratch_root::{DirectoryTree, ScratchRoot};

/// Types that Puppet adds to every catalog, or that are not resources in reports.
const HIDDEN_TYPES: [&str; 5] = ["Schedule", "Filebucket", "Stage", "Class", "Whit"];

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunOutcome {
    pub(crate) exit: i64,
    pub(crate) status: String,
    pub(crate) transaction_completed: bool,
    pub(crate) noop_pending: bool,
    /// References in the order of their evaluation.
    pub(crate) order: Vec<String>,
    pub(crate) resources: BTreeMap<String, ResourceStatus>,
}

/// The result of a resource. Only the states that apply are stored.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ResourceStatus {
    /// Those of `failed`, `failed_to_restart`, `changed`, `out_of_sync` and `skipped` that are true.
    pub(crate) is: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) events: Vec<ResourceEvent>,
}

/// An event, with values as in Puppet's reports.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ResourceEvent {
    pub(crate) property: Option<String>,
    pub(crate) previous_value: Value,
    pub(crate) desired_value: Value,
    pub(crate) status: String,
    pub(crate) message: String,
    pub(crate) name: Option<String>,
}

/// One run of a scenario, as it is recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ScenarioRun {
    pub(crate) outcome: RunOutcome,
    pub(crate) tree: DirectoryTree,
}

impl RunOutcome {
    /// Parses a report of format 12.
    pub(crate) fn from_report(report: &Value, exit: i64, root: &ScratchRoot) -> Self {
        let statuses = report["resource_statuses"]
            .as_object()
            .unwrap_or_else(|| panic!("no statuses: {report}"));
        let mut seen: Vec<&Value> = statuses.values().filter(|status| is_visible(status)).collect();
        let completed = report["transaction_completed"] == true;
        // With a dependency cycle nothing is evaluated, so there is no order.
        let key = if completed { "time" } else { "resource" };
        seen.sort_by_key(|status| status[key].as_str().unwrap_or_default());
        let name = |status: &Value| root.normalize(status["resource"].as_str().unwrap_or_default());
        Self {
            exit,
            status: text(&report["status"]),
            transaction_completed: completed,
            noop_pending: report["noop_pending"] == true,
            order: seen.iter().map(|status| name(status)).collect(),
            resources: seen
                .iter()
                .map(|status| (name(status), ResourceStatus::from_report(status, root)))
                .collect(),
        }
    }
}

impl ResourceStatus {
    fn from_report(status: &Value, root: &ScratchRoot) -> Self {
        let flags = ["failed", "failed_to_restart", "changed", "out_of_sync", "skipped"];
        let events = status["events"].as_array().map(Vec::as_slice).unwrap_or_default();
        Self {
            is: flags
                .iter()
                .filter(|state| status[**state] == true)
                .map(|state| (*state).to_owned())
                .collect(),
            events: events.iter().map(|event| ResourceEvent::from_report(event, root)).collect(),
        }
    }
}

impl ResourceEvent {
    fn from_report(event: &Value, root: &ScratchRoot) -> Self {
        Self {
            property: event["property"].as_str().map(str::to_owned),
            previous_value: normalize_value(&event["previous_value"], root),
            desired_value: normalize_value(&event["desired_value"], root),
            status: text(&event["status"]),
            message: root.normalize(&text(&event["message"])),
            name: event["name"].as_str().map(str::to_owned),
        }
    }
}

/// Numbers and Booleans are texts in some reports; they are converted to texts.
fn normalize_value(value: &Value, root: &ScratchRoot) -> Value {
    match value {
        Value::Array(values) => values.iter().map(|one| normalize_value(one, root)).collect(),
        Value::String(text) => Value::from(root.normalize(text)),
        Value::Number(number) => Value::from(number.to_string()),
        Value::Bool(truth) => Value::from(truth.to_string()),
        Value::Null | Value::Object(_) => value.clone(),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn is_visible(status: &Value) -> bool {
    !HIDDEN_TYPES.contains(&status["resource_type"].as_str().unwrap_or_default())
}
