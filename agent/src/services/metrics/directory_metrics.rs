//! The metrics of the directory's instance on this host: its nodes, and what it has answered.

use std::sync::Arc;

use muster_directory::{DirectoryHandle, DirectoryHttpMetrics, PageMount};
use muster_node::core::request_metrics::RequestMetrics;

use super::exposition::{MetricKind, MetricsPage};

#[derive(Debug)]
pub(crate) struct RunningDirectory {
    pub(crate) handle: DirectoryHandle,
    /// Its requests over the broker.
    pub(crate) requests: Arc<RequestMetrics>,
    /// Its requests over HTTP.
    pub(crate) http: Arc<DirectoryHttpMetrics>,
    /// Where queries for a `PuppetDB` are answered, if that is enabled.
    pub(crate) mount: Option<PageMount>,
}

/// Adds the metrics that only an instance has. Its requests over the broker are among those of all agents.
pub(super) fn add_directory_metrics(page: &mut MetricsPage, directory: &RunningDirectory) {
    let counts = directory.handle.counts(tokio::time::Instant::now());
    for (name, help, value) in [
        ("directory_nodes", "Nodes that the directory has a record of", counts.nodes),
        (
            "directory_missing_nodes",
            "Nodes of the directory that have sent no heartbeat for two intervals",
            counts.missing,
        ),
        (
            "directory_stale_nodes",
            "Missing nodes that have sent no heartbeat for an hour; answers leave them out",
            counts.stale,
        ),
        (
            "directory_problem_nodes",
            "Nodes whose newest record the directory refused; it keeps what it knew of them",
            counts.problems,
        ),
        (
            "directory_memory_bytes",
            "Estimated memory of all records of the directory",
            counts.memory_bytes,
        ),
        (
            "directory_cloned_nodes",
            "Nodes under whose name two daemons with the same key run",
            counts.cloned,
        ),
        (
            "directory_ready",
            "Whether the directory has read all records",
            usize::from(counts.is_ready),
        ),
        (
            "directory_current",
            "Whether the directory has read all records, and is connected to the broker",
            usize::from(counts.is_current),
        ),
    ] {
        page.begin_metric(name, MetricKind::Gauge, help).add_sample(&[], value);
    }
    let help = "Time for which the directory has received all heartbeats, in seconds";
    page.begin_metric("directory_listening_seconds", MetricKind::Gauge, help)
        .add_sample(&[], counts.listening.as_secs());
    let help = "Records of nodes that the directory refused";
    page.begin_metric("directory_refused_records_total", MetricKind::Counter, help)
        .add_sample(&[], counts.refused);
    let help = "Time of answered queries to the directory's HTTP API, in seconds";
    let mut queries = page.begin_metric("directory_http_query_seconds", MetricKind::Summary, help);
    for (name, times) in directory.http.queries() {
        let labels = [("page", name)];
        queries.add_part("_sum", &labels, times.sum.as_secs_f64()).add_part(
            "_count",
            &labels,
            times.count,
        );
    }
    let help = "Responses of the directory's HTTP API, by the code of their status";
    let mut responses =
        page.begin_metric("directory_http_responses_total", MetricKind::Counter, help);
    for (code, count) in directory.http.responses() {
        responses.add_sample(&[("code", code)], count);
    }
}
