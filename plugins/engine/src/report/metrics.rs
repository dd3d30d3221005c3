//! Metrics of a report.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{ResourceStatus, RunEnd};
use crate::resource::capitalise_name;

/// One group of metrics in Puppet's layout: `[name, label, value]`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MetricGroup {
    /// `resources`, `time`, `changes`, `events`.
    pub name: &'static str,
    /// The name with a capital letter.
    pub label: &'static str,
    /// The values.
    pub values: Vec<(String, String, serde_json::Number)>,
}

impl MetricGroup {
    fn add_count(&mut self, name: &str, value: u64) {
        self.values.push((name.to_owned(), metric_label(name), value.into()));
    }

    fn add_seconds(&mut self, name: &str, value: f64) {
        let value = serde_json::Number::from_f64(value).unwrap_or_else(|| 0.into());
        self.values.push((name.to_owned(), metric_label(name), value));
    }
}

/// All metric groups.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunMetrics {
    /// Number of resources, in total and by result.
    pub resources: MetricGroup,
    /// Seconds by type and in total.
    pub time: MetricGroup,
    /// Number of changes.
    pub changes: MetricGroup,
    /// Number of events, in total and by status.
    pub events: MetricGroup,
}

impl RunMetrics {
    /// All groups in report order.
    pub fn all_groups(&self) -> [&MetricGroup; 4] {
        [&self.resources, &self.time, &self.changes, &self.events]
    }

    /// Computes the metrics.
    pub(super) fn from_statuses(statuses: &[ResourceStatus], end: &RunEnd) -> Self {
        Self {
            resources: count_resources(statuses),
            time: sum_times(statuses, end),
            changes: count_changes(statuses),
            events: count_events(statuses),
        }
    }
}

fn empty_group(name: &'static str, label: &'static str) -> MetricGroup {
    MetricGroup { name, label, values: Vec::new() }
}

fn count_resources(statuses: &[ResourceStatus]) -> MetricGroup {
    let mut resources = empty_group("resources", "Resources");
    let count = |predicate: fn(&ResourceStatus) -> bool| {
        statuses.iter().filter(|status| predicate(status)).count() as u64
    };
    resources.add_count("total", count(|_| true));
    resources.add_count("skipped", count(|status| status.skipped));
    resources.add_count("failed", count(|status| status.failed));
    resources.add_count("failed_to_restart", count(|status| status.failed_to_restart));
    resources.add_count("restarted", count(|status| status.restarted));
    resources.add_count("changed", count(|status| status.changed));
    resources.add_count("out_of_sync", count(|status| status.out_of_sync));
    // Puppet counts this before it replaces the status that sets it, and reports 0 for evaluated resources.
    resources.add_count("scheduled", 0);
    resources.add_count("corrective_change", count(|status| status.corrective_change));
    resources
}

fn sum_times(statuses: &[ResourceStatus], end: &RunEnd) -> MetricGroup {
    let mut by_type: BTreeMap<String, f64> = BTreeMap::new();
    for status in statuses {
        if let Some(seconds) = status.evaluation_time {
            *by_type.entry(status.resource_type.to_lowercase()).or_default() += seconds;
        }
    }
    let mut time = empty_group("time", "Time");
    for (name, seconds) in &by_type {
        time.add_seconds(name, *seconds);
    }
    // Present even if the catalog came from a file: readers interpret its absence as a run without a catalog.
    time.add_seconds("config_retrieval", 0.0);
    time.add_seconds("transaction_evaluation", end.transaction_evaluation);
    time.add_seconds("catalog_application", end.total);
    time.add_seconds("total", end.total);
    time
}

fn count_changes(statuses: &[ResourceStatus]) -> MetricGroup {
    let mut changes = empty_group("changes", "Changes");
    changes.add_count("total", statuses.iter().map(|status| status.change_count).sum());
    changes
}

fn count_events(statuses: &[ResourceStatus]) -> MetricGroup {
    let mut events = empty_group("events", "Events");
    let all = || statuses.iter().flat_map(|status| &status.events);
    let count = |status: &str| all().filter(|event| event.status == status).count() as u64;
    events.add_count("total", all().count() as u64);
    events.add_count("failure", count("failure"));
    events.add_count("success", count("success"));
    for status in ["noop", "audit"] {
        if count(status) > 0 {
            events.add_count(status, count(status));
        }
    }
    events
}

/// `failed_to_restart` is labelled `Failed to restart`.
fn metric_label(name: &str) -> String {
    capitalise_name(&name.replace('_', " "))
}
