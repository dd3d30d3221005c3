//! The daemon's metrics. docs/guides/monitoring.md lists their names; their meaning is in their help lines.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use muster_agents::tunnel::TunnelCounts;
use muster_api::{FindingLevel, NodeHandle as _};
use muster_host::AgentLoad;
use muster_node::core::DaemonCore;
use muster_node::core::pending_config::CONFIGURATION_CHECK;
use muster_node::core::request_metrics::RequestMetrics;
use muster_wire::Millis;

use super::MetricsContext;
use super::directory_metrics::add_directory_metrics;
use super::exposition::{MetricKind, MetricsPage};
use super::history_metrics::add_history_metrics;
use super::puppetdb_metrics::add_puppetdb_metrics;
use super::sink_metrics::add_sink_metrics;
use crate::process::log_limit;

/// A metric with one sample without labels: its name, help and value.
type PlainMetric = (&'static str, &'static str, u64);

/// A metric with one sample for each agent: its name, help and value.
type AgentMetric = (&'static str, &'static str, fn(&AgentLoad) -> usize);

/// Inspects disks; blocks.
pub(super) fn render_page(context: &MetricsContext) -> String {
    let (mut page, core) = (MetricsPage::default(), &*context.core);
    add_daemon_metrics(&mut page, core);
    add_connection_metrics(&mut page, context);
    add_request_metrics(&mut page, context);
    add_agent_metrics(&mut page, core);
    add_audit_metrics(&mut page, core);
    add_health_metrics(&mut page, context);
    add_tunnel_metrics(&mut page, context.tunnels.counts());
    if let Some(directory) = context.directory.get() {
        add_directory_metrics(&mut page, directory);
    }
    if let Some(history) = context.history.get() {
        add_history_metrics(&mut page, &history.progress);
    }
    if let Some(counts) = context.sinks.puppetdb.get() {
        add_puppetdb_metrics(&mut page, counts, core.now());
    }
    if let Some(sinks) = context.sinks.events.get() {
        add_sink_metrics(&mut page, sinks, core.now());
    }
    page.into_text()
}

fn add_plain_metrics(
    page: &mut MetricsPage,
    kind: MetricKind,
    metrics: impl IntoIterator<Item = PlainMetric>,
) {
    for (name, help, value) in metrics {
        page.begin_metric(name, kind, help).add_sample(&[], value);
    }
}

fn add_daemon_metrics(page: &mut MetricsPage, core: &DaemonCore) {
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    page.begin_metric("build_info", MetricKind::Gauge, "Always 1; the daemon's version is a label")
        .add_sample(&version, 1);
    let verified = core.trust.account.get().verify_user(&core.trust.signer.token(), core.now());
    let expiry = verified.ok().and_then(|user| user.expires);
    let help = "Start time of the daemon, in seconds since the epoch";
    let started = core.snapshot_counters().starttime;
    add_plain_metrics(page, MetricKind::Gauge, [("start_time_seconds", help, started)]);
    for (name, help, time) in [
        (
            "account_token_confirmed_timestamp_seconds",
            "When the account token was last confirmed as the newest, in seconds since the epoch",
            Some(core.trust.freshness.confirmed_at()),
        ),
        (
            "credentials_expiry_timestamp_seconds",
            "Expiry time of the node's token, in seconds since the epoch; absent if it does not expire",
            expiry,
        ),
        (
            "last_request_timestamp_seconds",
            "Time of the last authentic request, in seconds since the epoch; absent before the first",
            core.request_metrics.last_arrival(),
        ),
    ] {
        let mut metric = page.begin_metric(name, MetricKind::Gauge, help);
        if let Some(time) = time {
            metric.add_sample(&[], format_seconds(time));
        }
    }
}

fn add_connection_metrics(page: &mut MetricsPage, context: &MetricsContext) {
    let (traffic, stats) = (context.bus.traffic(), context.core.snapshot_counters());
    let help = "Whether the daemon is connected to the broker";
    let connected = u64::from(context.bus.is_connected());
    add_plain_metrics(page, MetricKind::Gauge, [("broker_connected", help, connected)]);
    add_plain_metrics(
        page,
        MetricKind::Counter,
        [
            (
                "broker_reconnects_total",
                "Number of reconnections to the broker",
                traffic.connects.saturating_sub(1),
            ),
            ("broker_disconnects_total", "Number of lost broker connections", traffic.disconnects),
            (
                "broker_dropped_messages_total",
                "Messages that were dropped because they arrived faster than they were processed",
                traffic.dropped,
            ),
            // The counters that `rpc stats` shows too.
            ("messages_total", "Requests received, before any check", stats.total),
            (
                "messages_authentic_total",
                "Requests with a valid signature and token",
                stats.validated,
            ),
            (
                "messages_for_others_total",
                "Authentic requests whose target is not this node",
                stats.filtered,
            ),
            ("replies_total", "Replies sent, including refusals", stats.replies),
            // The daemon's own log.
            (
                "log_lines_left_out_total",
                "Log lines that the daemon omitted because one statement exceeded its limit",
                log_limit::left_out_lines(),
            ),
        ],
    );
    for (name, help, received, sent) in [
        (
            "broker_messages_total",
            "Messages over the broker connection",
            traffic.messages_in,
            traffic.messages_out,
        ),
        (
            "broker_bytes_total",
            "Bytes of the messages over the broker connection",
            traffic.bytes_in,
            traffic.bytes_out,
        ),
    ] {
        page.begin_metric(name, MetricKind::Counter, help)
            .add_sample(&[("direction", "in")], received)
            .add_sample(&[("direction", "out")], sent);
    }
}

fn add_request_metrics(page: &mut MetricsPage, context: &MetricsContext) {
    let help = "Authentic requests that were executed or refused; status as in replies, 0 is success; \
                _other stands for agents and actions that the node does not have";
    let mut outcomes = page.begin_metric("requests_total", MetricKind::Counter, help);
    for (outcome, count) in sum_counts(context, RequestMetrics::outcome_counts) {
        let labels = [
            ("agent", outcome.agent.as_str()),
            ("action", outcome.action.as_str()),
            ("status", &outcome.status.to_string()),
            ("reason", outcome.reason),
        ];
        outcomes.add_sample(&labels, count);
    }
    let mut durations =
        page.begin_metric("action_seconds", MetricKind::Summary, "Duration of actions, in seconds");
    for ((agent, action), time) in sum_counts(context, RequestMetrics::action_durations) {
        let labels = [("agent", agent.as_str()), ("action", action.as_str())];
        durations
            .add_part("_sum", &labels, time.sum.as_secs_f64())
            .add_part("_count", &labels, time.count);
    }
    let help = "Refused requests, by stage and reason";
    let mut refused = page.begin_metric("refusals_total", MetricKind::Counter, help);
    for ((stage, reason), count) in sum_counts(context, RequestMetrics::refusal_counts) {
        refused.add_sample(&[("stage", stage.as_str()), ("reason", reason)], count);
    }
    let help = "Requests that were accepted and have no reply yet";
    let running = context.core.running.count() as u64;
    add_plain_metrics(page, MetricKind::Gauge, [("requests_at_work", help, running)]);
}

/// The counts of the node, and of the directory's instance in this daemon, which has a connection of its own.
fn sum_counts<K: Ord, V: Default + AddAssign>(
    context: &MetricsContext,
    counts: impl Fn(&RequestMetrics) -> BTreeMap<K, V>,
) -> BTreeMap<K, V> {
    let mut sums = counts(&context.core.request_metrics);
    if let Some(directory) = context.directory.get() {
        for (key, value) in counts(&directory.requests) {
            *sums.entry(key).or_default() += value;
        }
    }
    sums
}

fn add_agent_metrics(page: &mut MetricsPage, core: &DaemonCore) {
    let loads = core.offer.registry.get().agent_loads();
    let families: [AgentMetric; 4] = [
        ("agent_running", "Running actions of an agent", |load| load.running),
        ("agent_waiting", "Requests to an agent that wait in its queue", |load| load.waiting),
        ("agent_running_limit", "Maximum number of concurrent actions of an agent", |load| {
            load.limits.concurrency
        }),
        (
            "agent_waiting_limit",
            "Maximum number of waiting requests of an agent; further ones are refused as busy",
            |load| load.limits.queue,
        ),
    ];
    for (name, help, value) in families {
        let mut metric = page.begin_metric(name, MetricKind::Gauge, help);
        for load in &loads {
            metric.add_sample(&[("agent", &load.agent)], value(load));
        }
    }
}

fn add_audit_metrics(page: &mut MetricsPage, core: &DaemonCore) {
    let status = core.journals.audit.status();
    let journal_lost = core.journals.seen.journal_state().problem().is_some();
    add_plain_metrics(
        page,
        MetricKind::Gauge,
        [
            (
                "audit_failing",
                "Whether the last write to the audit log failed",
                u64::from(status.failing.is_some()),
            ),
            ("audit_waiting", "Audit records that wait to be written", status.waiting as u64),
            (
                "seen_journal_lost",
                "Whether the journal of seen requests was lost or damaged at the last start",
                u64::from(journal_lost),
            ),
        ],
    );
    let help = "Audit records that could not be written";
    add_plain_metrics(page, MetricKind::Counter, [("audit_lost_total", help, status.lost)]);
    let help = "Number of the last line of each audit log, counted over all of its files; absent before the first";
    let mut last = page.begin_metric("audit_last_line", MetricKind::Gauge, help);
    for (log, anchor) in core.journals.audit.last_anchors() {
        last.add_sample(&[("log", log)], anchor.seq);
    }
}

fn add_health_metrics(page: &mut MetricsPage, context: &MetricsContext) {
    let findings = context.core.collect_findings();
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    page.begin_metric("findings", MetricKind::Gauge, "Problems of the node, as in `rpc doctor`")
        .add_sample(&[("level", "error")], count(FindingLevel::Error))
        .add_sample(&[("level", "warning")], count(FindingLevel::Warning));
    let ready = u64::from(context.unready_reasons(&findings).is_empty());
    let cloned = u64::from(context.core.clones.is_cloned());
    let pending = findings.iter().any(|finding| finding.check == CONFIGURATION_CHECK);
    let pending_help = "Whether files on disk differ from the configuration that the daemon runs";
    let cloned_help = "Whether another daemon with the name and key of this one is running";
    add_plain_metrics(
        page,
        MetricKind::Gauge,
        [
            ("ready", "Whether /readyz reports ready", ready),
            ("cloned", cloned_help, cloned),
            ("configuration_pending", pending_help, u64::from(pending)),
        ],
    );
}

fn add_tunnel_metrics(page: &mut MetricsPage, counts: TunnelCounts) {
    let help = "Tunnels that are open now";
    add_plain_metrics(page, MetricKind::Gauge, [("tunnels_open", help, counts.open)]);
    let help = "Tunnels that were opened";
    add_plain_metrics(page, MetricKind::Counter, [("tunnels_opened_total", help, counts.opened)]);
    let help = "Bytes that tunnels carried: in are those to ports of this node";
    page.begin_metric("tunnel_bytes_total", MetricKind::Counter, help)
        .add_sample(&[("direction", "in")], counts.received)
        .add_sample(&[("direction", "out")], counts.sent);
}

/// Formats milliseconds as seconds, Prometheus's unit.
fn format_seconds(time: Millis) -> String {
    format!("{}.{:03}", time / 1000, time % 1000)
}
