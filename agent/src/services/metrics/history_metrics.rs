//! The metrics of the history on this host: how far it lags, and how the last runs of all nodes ended.

use std::sync::Arc;

use muster_directory::DirectoryHandle;
use muster_history::index::HistoryIndex;
use muster_history::service::HistoryProgress;

use super::exposition::{MetricKind, MetricsPage};

/// The states of a last run. Each has a value from the start on.
const STATUSES: [&str; 5] = ["running", "changed", "unchanged", "failed", "aborted"];

/// The instance of the history on this host.
#[derive(Debug)]
pub(crate) struct RunningHistory {
    pub(crate) index: Arc<HistoryIndex>,
    pub(crate) progress: Arc<HistoryProgress>,
    /// The nodes, for filters.
    pub(crate) directory: DirectoryHandle,
}

pub(super) fn add_history_metrics(page: &mut MetricsPage, progress: &HistoryProgress) {
    let figures = progress.figures();
    let help = "Nodes by the status of their last run";
    let mut last_runs = page.begin_metric("history_last_runs", MetricKind::Gauge, help);
    for status in STATUSES {
        let nodes = figures.last_runs.get(status).copied().unwrap_or_default();
        last_runs.add_sample(&[("status", status)], nodes);
    }
    for (name, help, value) in [
        (
            "history_silent_nodes",
            "Nodes that had runs, and whose last one began too long ago",
            figures.silent,
        ),
        ("history_differing_nodes", "Nodes that differ from their last catalog", figures.differing),
        (
            "history_behind_messages",
            "Messages of nodes that the history has not read yet",
            progress.behind(),
        ),
    ] {
        page.begin_metric(name, MetricKind::Gauge, help).add_sample(&[], value);
    }
    let help = "Since when the first of the nodes that differ does, in seconds since the epoch; absent without any";
    let mut since =
        page.begin_metric("history_differing_since_timestamp_seconds", MetricKind::Gauge, help);
    if let Some(time) = figures.differing_since {
        since.add_sample(&[], time / 1000);
    }
    for (name, help, value) in [
        ("history_records_total", "Records that the history has taken", progress.taken()),
        (
            "history_refused_messages_total",
            "Messages that the history has refused",
            progress.refused(),
        ),
    ] {
        page.begin_metric(name, MetricKind::Counter, help).add_sample(&[], value);
    }
}
