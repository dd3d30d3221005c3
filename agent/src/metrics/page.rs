//! The daemon's metrics. Their names and meaning: docs/guides/monitoring.md.

use muster_api::{CounterSnapshot, FindingLevel, NodeHandle as _};
use muster_wire::Millis;

use super::MetricsContext;
use super::exposition::{MetricKind, MetricsPage};
use crate::core::DaemonCore;
use crate::log_limit;

/// Renders all metrics. Inspects disks; blocks.
pub(super) fn render_page(context: &MetricsContext) -> String {
    let (mut page, core) = (MetricsPage::default(), &*context.core);
    add_daemon_metrics(&mut page, core);
    add_connection_metrics(&mut page, context);
    add_message_metrics(&mut page, &core.snapshot_counters());
    add_request_metrics(&mut page, core);
    add_agent_metrics(&mut page, core);
    add_audit_metrics(&mut page, core);
    add_journal_metrics(&mut page, core);
    add_log_metrics(&mut page);
    add_health_metrics(&mut page, context);
    page.into_text()
}

fn add_daemon_metrics(page: &mut MetricsPage, core: &DaemonCore) {
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    page.begin_metric("build_info", MetricKind::Gauge, "Always 1; the daemon's version is a label")
        .add_sample(&version, 1);
    let help = "Start time of the daemon, in seconds since the epoch";
    page.add_metric(
        "start_time_seconds",
        MetricKind::Gauge,
        help,
        core.snapshot_counters().starttime,
    );
    let help =
        "Expiry time of the node's token, in seconds since the epoch; absent if it does not expire";
    let verified = core.trust.get().verify_user(&core.signer.token(), core.clock.now());
    let confirmed =
        "When the account token was last confirmed as the newest, in seconds since the epoch";
    page.add_metric(
        "account_token_confirmed_timestamp_seconds",
        MetricKind::Gauge,
        confirmed,
        format_seconds(core.freshness.confirmed_at()),
    );
    let mut expiry =
        page.begin_metric("credentials_expiry_timestamp_seconds", MetricKind::Gauge, help);
    if let Some(expires) = verified.ok().and_then(|user| user.expires) {
        expiry.add_sample(&[], format_seconds(expires));
    }
}

fn add_journal_metrics(page: &mut MetricsPage, core: &DaemonCore) {
    let help = "Whether the journal of seen requests was lost or damaged at the last start";
    let is_lost = core.seen.journal_state().problem().is_some();
    page.add_metric("seen_journal_lost", MetricKind::Gauge, help, u8::from(is_lost));
}

/// The daemon's own log.
fn add_log_metrics(page: &mut MetricsPage) {
    let help = "Log lines that the daemon omitted because one statement exceeded its limit";
    page.add_metric(
        "log_lines_left_out_total",
        MetricKind::Counter,
        help,
        log_limit::left_out_lines(),
    );
}

fn add_connection_metrics(page: &mut MetricsPage, context: &MetricsContext) {
    let traffic = context.bus.traffic();
    let help = "Whether the daemon is connected to the broker";
    page.add_metric(
        "broker_connected",
        MetricKind::Gauge,
        help,
        u8::from(context.bus.is_connected()),
    );
    let help = "Number of reconnections to the broker";
    let reconnects = traffic.connects.saturating_sub(1);
    page.add_metric("broker_reconnects_total", MetricKind::Counter, help, reconnects);
    let help = "Number of lost broker connections";
    page.add_metric("broker_disconnects_total", MetricKind::Counter, help, traffic.disconnects);
    let help = "Messages that were dropped because they arrived faster than they were processed";
    page.add_metric("broker_dropped_messages_total", MetricKind::Counter, help, traffic.dropped);
    page.begin_metric(
        "broker_messages_total",
        MetricKind::Counter,
        "Messages over the broker connection",
    )
    .add_sample(&[("direction", "in")], traffic.messages_in)
    .add_sample(&[("direction", "out")], traffic.messages_out);
    page.begin_metric(
        "broker_bytes_total",
        MetricKind::Counter,
        "Bytes of the messages over the broker connection",
    )
    .add_sample(&[("direction", "in")], traffic.bytes_in)
    .add_sample(&[("direction", "out")], traffic.bytes_out);
}

/// The counters that `rpc stats` shows too.
fn add_message_metrics(page: &mut MetricsPage, stats: &CounterSnapshot) {
    let help = "Requests received, before any check";
    page.add_metric("messages_total", MetricKind::Counter, help, stats.total);
    let help = "Requests with a valid signature and token";
    page.add_metric("messages_authentic_total", MetricKind::Counter, help, stats.validated);
    let help = "Authentic requests whose target is not this node";
    page.add_metric("messages_for_others_total", MetricKind::Counter, help, stats.filtered);
    page.add_metric(
        "replies_total",
        MetricKind::Counter,
        "Replies sent, including refusals",
        stats.replies,
    );
}

fn add_request_metrics(page: &mut MetricsPage, core: &DaemonCore) {
    let help = "Authentic requests that were executed or refused; status as in replies, 0 is success; \
                _other stands for agents and actions that the node does not have";
    let mut outcomes = page.begin_metric("requests_total", MetricKind::Counter, help);
    for (outcome, count) in core.request_metrics.outcome_counts() {
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
    for ((agent, action), time) in core.request_metrics.action_durations() {
        let labels = [("agent", agent.as_str()), ("action", action.as_str())];
        durations
            .add_part("_sum", &labels, time.sum.as_secs_f64())
            .add_part("_count", &labels, time.count);
    }
    let help = "Refused requests, by stage and reason";
    let mut refused = page.begin_metric("refusals_total", MetricKind::Counter, help);
    for ((stage, reason), count) in core.request_metrics.refusal_counts() {
        refused.add_sample(&[("stage", stage.as_str()), ("reason", reason)], count);
    }
    let help = "Requests that were accepted and have no reply yet";
    page.add_metric("requests_at_work", MetricKind::Gauge, help, core.running.count());
    let help =
        "Time of the last authentic request, in seconds since the epoch; absent before the first";
    let mut last = page.begin_metric("last_request_timestamp_seconds", MetricKind::Gauge, help);
    if let Some(arrival) = core.request_metrics.last_arrival() {
        last.add_sample(&[], format_seconds(arrival));
    }
}

fn add_agent_metrics(page: &mut MetricsPage, core: &DaemonCore) {
    let load = core.registry.get().agent_loads();
    let families = [
        ("agent_running", "Running actions of an agent"),
        ("agent_waiting", "Requests to an agent that wait in its queue"),
        ("agent_running_limit", "Maximum number of concurrent actions of an agent"),
        (
            "agent_waiting_limit",
            "Maximum number of waiting requests of an agent; further ones are refused as busy",
        ),
    ];
    for (name, help) in families {
        let mut metric = page.begin_metric(name, MetricKind::Gauge, help);
        for agent in &load {
            let value = match name {
                "agent_running" => agent.running,
                "agent_waiting" => agent.waiting,
                "agent_running_limit" => agent.limits.concurrency,
                _ => agent.limits.queue,
            };
            metric.add_sample(&[("agent", &agent.agent)], value);
        }
    }
}

fn add_audit_metrics(page: &mut MetricsPage, core: &DaemonCore) {
    let status = core.audit.status();
    let help = "Whether the last write to the audit log failed";
    page.add_metric("audit_failing", MetricKind::Gauge, help, u8::from(status.failing.is_some()));
    let help = "Audit records that wait to be written";
    page.add_metric("audit_waiting", MetricKind::Gauge, help, status.waiting);
    let help = "Audit records that could not be written";
    page.add_metric("audit_lost_total", MetricKind::Counter, help, status.lost);
    let help = "Number of the last line of each audit log, counted over all of its files; absent before the first";
    let mut last = page.begin_metric("audit_last_line", MetricKind::Gauge, help);
    for (log, anchor) in core.audit.last_anchors() {
        last.add_sample(&[("log", log)], anchor.seq);
    }
}

fn add_health_metrics(page: &mut MetricsPage, context: &MetricsContext) {
    let findings = context.core.collect_findings();
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    page.begin_metric("findings", MetricKind::Gauge, "Problems of the node, as in `rpc doctor`")
        .add_sample(&[("level", "error")], count(FindingLevel::Error))
        .add_sample(&[("level", "warning")], count(FindingLevel::Warning));
    let ready = context.unready_reasons(&findings).is_empty();
    page.add_metric("ready", MetricKind::Gauge, "Whether /readyz reports ready", u8::from(ready));
}

/// Formats milliseconds as seconds, Prometheus's unit.
fn format_seconds(time: Millis) -> String {
    format!("{}.{:03}", time / 1000, time % 1000)
}
