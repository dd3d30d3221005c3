//! Reads `last_run_report.yaml`, Puppet's report of a run. Puppet writes it only if the run completed.

use std::collections::BTreeSet;

use muster_contract::puppet::PuppetResourceEvent;
use serde::Serialize;
use serde_json::{Map, Value};

use super::summary::value_text;
use super::yaml;

/// A report of 1000 resources with all log lines has about 2 MB.
pub(crate) const MAX_REPORT_BYTES: u64 = 64 * 1024 * 1024;
/// The start of a line in Puppet's log about a refresh that a run without effect skipped.
pub(crate) const SKIPPED_REFRESH: &str = "Would have triggered 'refresh'";
/// Maximum number of events, and of names, in one reply.
const MAX_LISTED_ITEMS: usize = 500;
/// Longest value of a field, in bytes. Longer ones are cut: records of runs and events contain them.
const MAX_FIELD_BYTES: usize = 1024;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PuppetRunReport {
    document: Map<String, Value>,
}

/// Identifies a report: it differs for every run. Old versions of Puppet have no transaction UUID, only a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, serde::Deserialize)]
pub(crate) struct ReportIdentity {
    transaction_uuid: Option<String>,
    time: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ResourceOutcome {
    pub(crate) failed: bool,
    pub(crate) failed_to_restart: bool,
    pub(crate) skipped: bool,
}

impl PuppetRunReport {
    /// Parses a complete report.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let Value::Object(document) = yaml::parse_mapping(text)? else { return None };
        document.get("status")?;
        Some(Self { document })
    }

    /// Parses a report of the engine, which is written as JSON.
    pub(crate) fn parse_json(text: &str) -> Option<Self> {
        let document: Map<String, Value> = serde_json::from_str(text).ok()?;
        document.get("status")?;
        Some(Self { document })
    }

    /// The report in Puppet's format 12, as JSON.
    pub(crate) fn values(&self) -> &Map<String, Value> {
        &self.document
    }

    pub(crate) fn report_identity(&self) -> ReportIdentity {
        ReportIdentity {
            transaction_uuid: self.text_field("transaction_uuid"),
            time: self.text_field("time"),
        }
    }

    pub(crate) fn text_field(&self, name: &str) -> Option<String> {
        let mut text = value_text(self.document.get(name)?)?;
        text.truncate(text.floor_char_boundary(MAX_FIELD_BYTES));
        Some(text)
    }

    pub(crate) fn flag_field(&self, name: &str) -> Option<bool> {
        self.document.get(name)?.as_bool()
    }

    /// A value of a metric, such as `resources`, `total`.
    pub(crate) fn metric_value(&self, metric: &str, name: &str) -> Option<f64> {
        let values = self.document.get("metrics")?.get(metric)?.get("values")?;
        let value = values.as_array()?.iter().find_map(|value| {
            let found = value.get(0)?.as_str()? == name;
            found.then(|| value.get(2).cloned()).flatten()
        })?;
        value.as_f64()
    }

    /// A counter of the metric `resources`.
    pub(crate) fn resource_count(&self, name: &str) -> Option<u64> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "counters are whole and small; a cast saturates"
        )]
        self.metric_value("resources", name).map(|value| value as u64)
    }

    /// All values, by metric and name.
    pub(crate) fn all_metrics(&self) -> Map<String, Value> {
        let metrics = self.document.get("metrics").and_then(Value::as_object);
        let metrics = metrics.into_iter().flatten();
        metrics.map(|(name, body)| (name.clone(), metric_values(body))).collect()
    }

    /// Whether there was no catalog to apply, or the run ended before all resources were evaluated. Older reports lack `transaction_completed`.
    pub(crate) fn is_failed_run(&self) -> bool {
        let total = self.resource_count("total").unwrap_or_default();
        total == 0 || self.flag_field("transaction_completed") == Some(false)
    }

    /// Whether the run or any resource failed.
    pub(crate) fn has_failures(&self) -> bool {
        self.text_field("status").as_deref() == Some("failed")
            || self.resource_count("failed").unwrap_or_default() > 0
            || self.resource_count("failed_to_restart").unwrap_or_default() > 0
            || self.is_failed_run()
    }

    /// Status flags of a resource; `None` if it is not in the catalog.
    pub(crate) fn resource_outcome(&self, reference: &str) -> Option<ResourceOutcome> {
        let status = self.document.get("resource_statuses")?.get(reference)?;
        let has_flag = |name: &str| status.get(name).and_then(Value::as_bool) == Some(true);
        Some(ResourceOutcome {
            failed: has_flag("failed"),
            failed_to_restart: has_flag("failed_to_restart"),
            skipped: has_flag("skipped"),
        })
    }

    fn resource_statuses(&self) -> impl Iterator<Item = (&String, &Value)> {
        let statuses = self.document.get("resource_statuses");
        statuses.and_then(Value::as_object).into_iter().flatten()
    }

    /// Resources with any of these flags set, up to [`MAX_LISTED_ITEMS`].
    pub(crate) fn resources_with(&self, flags: &[&str]) -> Vec<String> {
        let has_flag = |status: &Value, flag: &str| status.get(flag).and_then(Value::as_bool);
        self.resource_statuses()
            .filter(|(_, status)| flags.iter().any(|flag| has_flag(status, flag) == Some(true)))
            .map(|(reference, _)| reference.clone())
            .take(MAX_LISTED_ITEMS)
            .collect()
    }

    /// Events of the run, up to [`MAX_LISTED_ITEMS`].
    pub(crate) fn resource_events(&self) -> Vec<PuppetResourceEvent> {
        let events_of = |(reference, status): (&String, &Value)| -> Vec<PuppetResourceEvent> {
            let events = status.get("events").and_then(Value::as_array);
            let to_event = |event: &Value| {
                let field = |name: &str| event.get(name).and_then(value_text);
                PuppetResourceEvent {
                    resource: reference.clone(),
                    property: field("property"),
                    status: field("status").unwrap_or_default(),
                    message: field("message").unwrap_or_default(),
                }
            };
            events.into_iter().flatten().map(to_event).collect()
        };
        self.resource_statuses().flat_map(events_of).take(MAX_LISTED_ITEMS).collect()
    }

    /// Resource, property and new value of each change and each failure.
    pub(crate) fn changes(&self) -> BTreeSet<(String, String, String)> {
        let changes_of = |(reference, status): (&String, &Value)| {
            let events = status.get("events").and_then(Value::as_array).into_iter().flatten();
            let change = |event: &Value| {
                let field = |name: &str| event.get(name).and_then(value_text).unwrap_or_default();
                let is_change = matches!(field("status").as_str(), "success" | "failure");
                is_change.then(|| (reference.clone(), field("property"), field("desired_value")))
            };
            events.filter_map(change).collect::<Vec<_>>()
        };
        self.resource_statuses().flat_map(changes_of).collect()
    }

    /// The resources of log lines about refreshes that a run without effect skipped, up to [`MAX_LISTED_ITEMS`].
    pub(crate) fn skipped_refreshes(&self) -> Vec<String> {
        let logs = self.document.get("logs").and_then(Value::as_array).into_iter().flatten();
        let source = |log: &Value| {
            let message = log.get("message")?.as_str()?;
            let is_noop = message.starts_with(SKIPPED_REFRESH);
            is_noop.then(|| log.get("source")?.as_str().map(str::to_owned)).flatten()
        };
        logs.filter_map(source).take(MAX_LISTED_ITEMS).collect()
    }

    /// Last lines of the log, of these levels; of all levels when none is given.
    pub(crate) fn log_lines(&self, levels: &[&str]) -> Vec<String> {
        let logs = self.document.get("logs").and_then(Value::as_array);
        let line = |log: &Value| {
            let field = |name: &str| log.get(name).and_then(value_text).unwrap_or_default();
            let level = field("level");
            let is_included = levels.is_empty() || levels.contains(&level.as_str());
            is_included.then(|| format!("{level}: {}: {}", field("source"), field("message")))
        };
        let mut lines: Vec<String> = logs.into_iter().flatten().filter_map(line).collect();
        lines.drain(..lines.len().saturating_sub(MAX_LISTED_ITEMS));
        lines
    }
}

fn metric_values(body: &Value) -> Value {
    let values = body.get("values").and_then(Value::as_array);
    let pair = |value: &Value| Some((value.get(0)?.as_str()?.to_owned(), value.get(2)?.clone()));
    let values: Map<String, Value> = values.into_iter().flatten().filter_map(pair).collect();
    Value::Object(values)
}
