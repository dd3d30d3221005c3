//! The counts of a report.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{End, Status};

/// One group of counts, in Puppet's layout: `[name, label, value]`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Metric {
    /// `resources`, `time`, `changes`, `events`.
    pub name: &'static str,
    /// The same with a capital letter.
    pub label: &'static str,
    /// The counts.
    pub values: Vec<(String, String, serde_json::Number)>,
}

impl Metric {
    fn count(&mut self, name: &str, value: u64) {
        self.values
            .push((name.to_owned(), label(name), value.into()));
    }

    fn seconds(&mut self, name: &str, value: f64) {
        let value = serde_json::Number::from_f64(value).unwrap_or_else(|| 0.into());
        self.values.push((name.to_owned(), label(name), value));
    }
}

/// All groups.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Metrics {
    /// How many resources, and how they fared.
    pub resources: Metric,
    /// Seconds by type, and for the whole.
    pub time: Metric,
    /// How many changes.
    pub changes: Metric,
    /// How many events, by status.
    pub events: Metric,
}

impl Metrics {
    /// Every group with its name.
    pub fn all(&self) -> [&Metric; 4] {
        [&self.resources, &self.time, &self.changes, &self.events]
    }

    /// Counts.
    pub(super) fn of(statuses: &[Status], end: &End) -> Self {
        Self {
            resources: resources(statuses),
            time: time(statuses, end),
            changes: changes(statuses),
            events: events(statuses),
        }
    }
}

fn metric(name: &'static str, label: &'static str) -> Metric {
    Metric {
        name,
        label,
        values: Vec::new(),
    }
}

fn resources(statuses: &[Status]) -> Metric {
    let mut resources = metric("resources", "Resources");
    let count = |is: fn(&Status) -> bool| {
        u64::try_from(statuses.iter().filter(|status| is(status)).count()).unwrap_or(u64::MAX)
    };
    resources.count("total", count(|_| true));
    resources.count("skipped", count(|status| status.skipped));
    resources.count("failed", count(|status| status.failed));
    resources.count(
        "failed_to_restart",
        count(|status| status.failed_to_restart),
    );
    resources.count("restarted", count(|status| status.restarted));
    resources.count("changed", count(|status| status.changed));
    resources.count("out_of_sync", count(|status| status.out_of_sync));
    // Puppet counts this before it replaces the status that says so, and gets 0 for what was evaluated.
    resources.count("scheduled", 0);
    resources.count(
        "corrective_change",
        count(|status| status.corrective_change),
    );
    resources
}

fn time(statuses: &[Status], end: &End) -> Metric {
    let mut by_type: BTreeMap<String, f64> = BTreeMap::new();
    for status in statuses {
        if let Some(seconds) = status.evaluation_time {
            *by_type
                .entry(status.resource_type.to_lowercase())
                .or_default() += seconds;
        }
    }
    let mut time = metric("time", "Time");
    for (name, seconds) in &by_type {
        time.seconds(name, *seconds);
    }
    // Present also when the catalog came from a file: readers take its absence for a run that had no catalog.
    time.seconds("config_retrieval", 0.0);
    time.seconds("transaction_evaluation", end.transaction_evaluation);
    time.seconds("catalog_application", end.total);
    time.seconds("total", end.total);
    time
}

fn changes(statuses: &[Status]) -> Metric {
    let mut changes = metric("changes", "Changes");
    changes.count(
        "total",
        statuses.iter().map(|status| status.change_count).sum(),
    );
    changes
}

fn events(statuses: &[Status]) -> Metric {
    let mut events = metric("events", "Events");
    let all = || statuses.iter().flat_map(|status| &status.events);
    let count = |word: &str| {
        u64::try_from(all().filter(|event| event.status == word).count()).unwrap_or(u64::MAX)
    };
    events.count("total", u64::try_from(all().count()).unwrap_or(u64::MAX));
    events.count("failure", count("failure"));
    events.count("success", count("success"));
    for word in ["noop", "audit"] {
        if count(word) > 0 {
            events.count(word, count(word));
        }
    }
    events
}

/// `failed_to_restart` is labelled `Failed to restart`.
fn label(name: &str) -> String {
    let text = name.replace('_', " ");
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}
