//! What a run did and said, as a value that two runs can be compared by: a report without its times.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::world::{Tree, World};

/// Types that Puppet adds to every catalog, or that are not resources to a reader of reports.
const UNSEEN: [&str; 5] = ["Schedule", "Filebucket", "Stage", "Class", "Whit"];

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) exit: i64,
    pub(crate) status: String,
    pub(crate) transaction_completed: bool,
    pub(crate) noop_pending: bool,
    /// In the order of their evaluation.
    pub(crate) order: Vec<String>,
    pub(crate) resources: BTreeMap<String, Status>,
}

/// A resource in a run. Only what holds is written down.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Status {
    /// Of `failed`, `failed_to_restart`, `changed`, `out_of_sync`, `skipped`: those that are true.
    pub(crate) is: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) events: Vec<Event>,
}

/// An event, with values as Puppet's reports have them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Event {
    pub(crate) property: Option<String>,
    pub(crate) previous_value: Value,
    pub(crate) desired_value: Value,
    pub(crate) status: String,
    pub(crate) message: String,
    pub(crate) name: Option<String>,
}

/// One run of a scenario, as it is recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) outcome: Outcome,
    pub(crate) tree: Tree,
}

impl Outcome {
    /// Reads a report of format 12.
    pub(crate) fn of_report(report: &Value, exit: i64, world: &World) -> Self {
        let statuses = report["resource_statuses"]
            .as_object()
            .unwrap_or_else(|| panic!("no statuses: {report}"));
        let mut seen: Vec<&Value> = statuses.values().filter(|status| is_seen(status)).collect();
        let completed = report["transaction_completed"] == true;
        // Where there is a cycle nothing is evaluated, and so there is no order.
        let key = if completed { "time" } else { "resource" };
        seen.sort_by_key(|status| status[key].as_str().unwrap_or_default());
        let name = |status: &Value| world.normal(status["resource"].as_str().unwrap_or_default());
        Self {
            exit,
            status: text(&report["status"]),
            transaction_completed: completed,
            noop_pending: report["noop_pending"] == true,
            order: seen.iter().map(|status| name(status)).collect(),
            resources: seen
                .iter()
                .map(|status| (name(status), Status::of(status, world)))
                .collect(),
        }
    }
}

impl Status {
    fn of(status: &Value, world: &World) -> Self {
        let words = ["failed", "failed_to_restart", "changed", "out_of_sync", "skipped"];
        let events = status["events"].as_array().map(Vec::as_slice).unwrap_or_default();
        Self {
            is: words
                .iter()
                .filter(|word| status[**word] == true)
                .map(|word| (*word).to_owned())
                .collect(),
            events: events.iter().map(|event| Event::of(event, world)).collect(),
        }
    }
}

impl Event {
    fn of(event: &Value, world: &World) -> Self {
        Self {
            property: event["property"].as_str().map(str::to_owned),
            previous_value: value(&event["previous_value"], world),
            desired_value: value(&event["desired_value"], world),
            status: text(&event["status"]),
            message: world.normal(&text(&event["message"])),
            name: event["name"].as_str().map(str::to_owned),
        }
    }
}

/// Numbers and truths are texts in some reports and not in others; they are texts here.
fn value(value: &Value, world: &World) -> Value {
    match value {
        Value::Array(values) => values.iter().map(|one| self::value(one, world)).collect(),
        Value::String(text) => Value::from(world.normal(text)),
        Value::Number(number) => Value::from(number.to_string()),
        Value::Bool(truth) => Value::from(truth.to_string()),
        Value::Null | Value::Object(_) => value.clone(),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn is_seen(status: &Value) -> bool {
    !UNSEEN.contains(&status["resource_type"].as_str().unwrap_or_default())
}
