//! The metrics of the sink for `PuppetDB` on this host.

use muster_puppetdb::sink::{CommandKind, KindCounts, SinkCounts};

use super::exposition::{MetricKind, MetricsPage};

/// A metric with one sample for each kind of command: its name, help, kind and value.
type CommandMetric = (&'static str, &'static str, MetricKind, fn(&KindCounts) -> u64);

const COMMAND_METRICS: [CommandMetric; 3] = [
    ("puppetdb_sent_total", "Commands that PuppetDB has accepted", MetricKind::Counter, |counts| {
        counts.sent
    }),
    (
        "puppetdb_failed_total",
        "Commands that PuppetDB has refused; they are among the dead letters",
        MetricKind::Counter,
        |counts| counts.failed,
    ),
    ("puppetdb_waiting", "What is known to wait for PuppetDB", MetricKind::Gauge, |counts| {
        counts.waiting
    }),
];

/// Adds them. `now` in milliseconds since the epoch.
pub(super) fn add_puppetdb_metrics(page: &mut MetricsPage, counts: &SinkCounts, now: u64) {
    for (name, help, kind, value) in COMMAND_METRICS {
        let mut metric = page.begin_metric(name, kind, help);
        for command in CommandKind::ALL {
            metric.add_sample(&[("command", command.as_str())], value(&counts.of(command)));
        }
    }
    let help = "Time for which PuppetDB has accepted no command although there was one, in seconds; 0 if it accepts them";
    let failing = counts.failing_since().map_or(0, |since| now.saturating_sub(since) / 1000);
    page.begin_metric("puppetdb_failing_seconds", MetricKind::Gauge, help).add_sample(&[], failing);
    let help = "Time of the last command that PuppetDB has accepted, in seconds since the epoch; absent before the first";
    let mut metric =
        page.begin_metric("puppetdb_last_sent_timestamp_seconds", MetricKind::Gauge, help);
    if let Some(time) = counts.last_sent() {
        metric.add_sample(&[], time / 1000);
    }
}
