//! The metrics of the sinks on this host.

use std::sync::{Arc, OnceLock};

use muster_puppetdb::sink::SinkCounts;
use muster_sinks::{EventSinkCounts, SinkStatus};

use super::exposition::{MetricKind, MetricsPage};

/// The sinks of this host, each once it runs.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunningSinks {
    /// What the sink for `PuppetDB` has sent.
    pub(crate) puppetdb: Arc<OnceLock<Arc<SinkCounts>>>,
    /// The sinks for events.
    pub(crate) events: Arc<OnceLock<Vec<SinkStatus>>>,
}

/// A metric with one sample for each sink: its name, help, kind and value at this time, in milliseconds since the epoch.
type SinkMetric = (&'static str, &'static str, MetricKind, fn(&EventSinkCounts, u64) -> u64);

const SINK_METRICS: [SinkMetric; 4] = [
    (
        "sink_delivered_total",
        "Events that the target of the sink has taken",
        MetricKind::Counter,
        |counts, _| counts.delivered(),
    ),
    (
        "sink_dead_letters_total",
        "Events that the target of the sink has refused; they are among the dead letters",
        MetricKind::Counter,
        |counts, _| counts.dead_letters(),
    ),
    (
        "sink_waiting",
        "Events that the sink has not passed yet, before its filter",
        MetricKind::Gauge,
        |counts, _| counts.waiting(),
    ),
    (
        "sink_failing_seconds",
        "Time for which the target of the sink has taken nothing although there was something, in seconds; 0 if it takes events",
        MetricKind::Gauge,
        |counts, now| counts.failing_since().map_or(0, |since| now.saturating_sub(since) / 1000),
    ),
];

/// Adds them. `now` in milliseconds since the epoch.
pub(super) fn add_sink_metrics(page: &mut MetricsPage, sinks: &[SinkStatus], now: u64) {
    for (name, help, kind, value) in SINK_METRICS {
        let mut metric = page.begin_metric(name, kind, help);
        for sink in sinks {
            metric.add_sample(&[("sink", &sink.name)], value(&sink.counts, now));
        }
    }
}
