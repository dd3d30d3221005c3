//! Metrics of a report.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Number;

use super::{ResourceStatus, RunEnd};
use crate::resource::capitalise_word;

/// One group of metrics in Puppet's layout: `[name, label, value]`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MetricGroup {
    /// `resources`, `time`, `changes`, `events`.
    pub name: &'static str,
    /// The name with a capital letter.
    pub label: &'static str,
    pub values: Vec<(String, String, Number)>,
}

impl MetricGroup {
    fn new<S: Into<String>>(
        name: &'static str,
        label: &'static str,
        values: impl IntoIterator<Item = (S, Number)>,
    ) -> Self {
        let with_label = |(name, value): (S, Number)| {
            let name = name.into();
            let label = metric_label(&name);
            (name, label, value)
        };
        Self { name, label, values: values.into_iter().map(with_label).collect() }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunMetrics {
    /// Number of resources, in total and by result.
    pub resources: MetricGroup,
    /// Seconds by type and in total.
    pub time: MetricGroup,
    pub changes: MetricGroup,
    /// Number of events, in total and by status.
    pub events: MetricGroup,
}

impl RunMetrics {
    /// All groups in report order.
    pub fn all_groups(&self) -> [&MetricGroup; 4] {
        [&self.resources, &self.time, &self.changes, &self.events]
    }

    pub(super) fn from_statuses(statuses: &[ResourceStatus], end: &RunEnd) -> Self {
        Self {
            resources: count_resources(statuses),
            time: sum_times(statuses, end),
            changes: count_changes(statuses),
            events: count_events(statuses),
        }
    }
}

fn count_resources(statuses: &[ResourceStatus]) -> MetricGroup {
    let count = |predicate: fn(&ResourceStatus) -> bool| {
        statuses.iter().filter(|status| predicate(status)).count().into()
    };
    let values = [
        ("total", count(|_| true)),
        ("skipped", count(|status| status.skipped)),
        ("failed", count(|status| status.failed)),
        ("failed_to_restart", count(|status| status.failed_to_restart)),
        ("restarted", count(|status| status.restarted)),
        ("changed", count(|status| status.changed)),
        ("out_of_sync", count(|status| status.out_of_sync)),
        // Puppet counts this before it replaces the status that sets it, and reports 0 for evaluated resources.
        ("scheduled", 0.into()),
        ("corrective_change", count(|status| status.corrective_change)),
    ];
    MetricGroup::new("resources", "Resources", values)
}

fn sum_times(statuses: &[ResourceStatus], end: &RunEnd) -> MetricGroup {
    let mut by_type: BTreeMap<String, f64> = BTreeMap::new();
    for status in statuses {
        if let Some(seconds) = status.evaluation_time {
            *by_type.entry(status.resource_type.to_lowercase()).or_default() += seconds;
        }
    }
    let totals = [
        // Present even if the catalog came from a file: readers interpret its absence as a run without a catalog.
        ("config_retrieval", 0.0),
        ("transaction_evaluation", end.transaction_evaluation),
        ("catalog_application", end.total),
        ("total", end.total),
    ];
    let totals = totals.map(|(name, seconds)| (name.to_owned(), seconds));
    let number = |seconds| Number::from_f64(seconds).unwrap_or_else(|| 0.into());
    let times = by_type.into_iter().chain(totals);
    MetricGroup::new("time", "Time", times.map(|(name, seconds)| (name, number(seconds))))
}

fn count_changes(statuses: &[ResourceStatus]) -> MetricGroup {
    let total: u64 = statuses.iter().map(|status| status.change_count).sum();
    MetricGroup::new("changes", "Changes", [("total", total.into())])
}

fn count_events(statuses: &[ResourceStatus]) -> MetricGroup {
    let all = || statuses.iter().flat_map(|status| &status.events);
    let count = |status: &str| all().filter(|event| event.status == status).count();
    let always = ["failure", "success"].map(|status| (status, count(status)));
    let optional = ["noop", "audit"].map(|status| (status, count(status)));
    let optional = optional.into_iter().filter(|(_, count)| *count > 0);
    let values = [("total", all().count())].into_iter().chain(always).chain(optional);
    MetricGroup::new("events", "Events", values.map(|(status, count)| (status, count.into())))
}

/// `failed_to_restart` is labelled `Failed to restart`.
fn metric_label(name: &str) -> String {
    capitalise_word(&name.replace('_', " "))
}
