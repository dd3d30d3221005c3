//! What the daemon measures of itself, as metrics. Their names and meaning: docs/guides/monitoring.md.

use muster_api::{Level, Node as _, Stats};
use muster_wire::Millis;

use super::Shown;
use super::exposition::{Kind, Page};
use crate::core::Core;
use crate::log_limit;

/// All metrics now. Looks at disks; blocks.
pub(super) fn page(shown: &Shown) -> String {
    let (mut page, core) = (Page::default(), &*shown.core);
    daemon(&mut page, core);
    connection(&mut page, shown);
    messages(&mut page, &core.counted());
    requests(&mut page, core);
    agents(&mut page, core);
    audit(&mut page, core);
    journal(&mut page, core);
    log(&mut page);
    health(&mut page, shown);
    page.text()
}

fn daemon(page: &mut Page, core: &Core) {
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    page.metric(
        "build_info",
        Kind::Gauge,
        "Always 1; the daemon's version is a label",
    )
    .sample(&version, 1);
    let help = "When the daemon started, in seconds since the epoch";
    page.one(
        "start_time_seconds",
        Kind::Gauge,
        help,
        core.counted().starttime,
    );
    let help =
        "When the node's own token ends, in seconds since the epoch; absent when it does not";
    let own = core
        .trust()
        .verify_user(&core.signer.token(), core.clock.now());
    let confirmed =
        "When the account token was last known to be the newest, in seconds since the epoch";
    page.one(
        "account_token_confirmed_timestamp_seconds",
        Kind::Gauge,
        confirmed,
        seconds(core.trust_freshness().confirmed_at()),
    );
    let mut ends = page.metric("credentials_expiry_timestamp_seconds", Kind::Gauge, help);
    if let Some(expires) = own.ok().and_then(|own| own.expires) {
        ends.sample(&[], seconds(expires));
    }
}

fn journal(page: &mut Page, core: &Core) {
    let help = "Whether the last start found the journal of seen requests lost or damaged";
    let is_lost = core.seen.found().problem().is_some();
    page.one("seen_journal_lost", Kind::Gauge, help, u8::from(is_lost));
}

/// The daemon's own log.
fn log(page: &mut Page) {
    let help =
        "Lines that the daemon left out of its log, because one statement had written too many";
    page.one(
        "log_lines_left_out_total",
        Kind::Counter,
        help,
        log_limit::left_out(),
    );
}

fn connection(page: &mut Page, shown: &Shown) {
    let traffic = shown.bus.traffic();
    let help = "Whether there is a connection to the broker";
    page.one(
        "broker_connected",
        Kind::Gauge,
        help,
        u8::from(shown.bus.is_connected()),
    );
    let help = "How often the connection was made again after the first time";
    let again = traffic.connects.saturating_sub(1);
    page.one("broker_reconnects_total", Kind::Counter, help, again);
    let help = "How often the connection was lost";
    page.one(
        "broker_disconnects_total",
        Kind::Counter,
        help,
        traffic.disconnects,
    );
    let help = "Messages that came faster than they were taken, and were dropped";
    page.one(
        "broker_dropped_messages_total",
        Kind::Counter,
        help,
        traffic.dropped,
    );
    page.metric(
        "broker_messages_total",
        Kind::Counter,
        "Messages over the connection",
    )
    .sample(&[("direction", "in")], traffic.messages_in)
    .sample(&[("direction", "out")], traffic.messages_out);
    page.metric(
        "broker_bytes_total",
        Kind::Counter,
        "Bytes of these messages",
    )
    .sample(&[("direction", "in")], traffic.bytes_in)
    .sample(&[("direction", "out")], traffic.bytes_out);
}

/// What `rpc stats` shows, too.
fn messages(page: &mut Page, stats: &Stats) {
    let help = "Requests that came, before anything was known of them";
    page.one("messages_total", Kind::Counter, help, stats.total);
    let help = "Requests whose signature and token were good";
    page.one(
        "messages_authentic_total",
        Kind::Counter,
        help,
        stats.validated,
    );
    let help = "Authentic requests that were for other nodes";
    page.one(
        "messages_for_others_total",
        Kind::Counter,
        help,
        stats.filtered,
    );
    page.one(
        "replies_total",
        Kind::Counter,
        "Answers, refusals included",
        stats.replies,
    );
}

fn requests(page: &mut Page, core: &Core) {
    let help = "Requests of proven callers that were answered or refused; status as in replies, 0 is success; \
                _other is what the node does not offer";
    let mut ended = page.metric("requests_total", Kind::Counter, help);
    for (end, count) in core.tallies.ends() {
        let labels = [
            ("agent", end.agent.as_str()),
            ("action", end.action.as_str()),
            ("status", &end.status.to_string()),
            ("reason", end.reason),
        ];
        ended.sample(&labels, count);
    }
    let mut took = page.metric("action_seconds", Kind::Summary, "How long actions ran");
    for ((agent, action), time) in core.tallies.times() {
        let labels = [("agent", agent.as_str()), ("action", action.as_str())];
        took.part("_sum", &labels, time.sum.as_secs_f64())
            .part("_count", &labels, time.count);
    }
    let help = "Requests that were refused, by the stage that refused them and its reason";
    let mut refused = page.metric("refusals_total", Kind::Counter, help);
    for ((stage, reason), count) in core.tallies.refusals() {
        refused.sample(&[("stage", stage.word()), ("reason", reason)], count);
    }
    let help = "Requests that were accepted and are not answered yet";
    page.one("requests_at_work", Kind::Gauge, help, core.running.count());
    let help =
        "When the last authentic request came, in seconds since the epoch; absent before the first";
    let mut last = page.metric("last_request_timestamp_seconds", Kind::Gauge, help);
    if let Some(came) = core.tallies.last() {
        last.sample(&[], seconds(came));
    }
}

fn agents(page: &mut Page, core: &Core) {
    let load = core.registry().load();
    let families = [
        ("agent_running", "Actions of an agent that run"),
        (
            "agent_waiting",
            "Requests to an agent that wait for their turn",
        ),
        (
            "agent_running_limit",
            "Actions of an agent that may run at once",
        ),
        (
            "agent_waiting_limit",
            "Requests to an agent that may wait; the next one is answered busy",
        ),
    ];
    for (name, help) in families {
        let mut metric = page.metric(name, Kind::Gauge, help);
        for agent in &load {
            let value = match name {
                "agent_running" => agent.running,
                "agent_waiting" => agent.waiting,
                "agent_running_limit" => agent.limits.concurrency,
                _ => agent.limits.queue,
            };
            metric.sample(&[("agent", &agent.agent)], value);
        }
    }
}

fn audit(page: &mut Page, core: &Core) {
    let condition = core.audit.condition();
    let help = "Whether the last write to the audit log failed";
    page.one(
        "audit_failing",
        Kind::Gauge,
        help,
        u8::from(condition.failing.is_some()),
    );
    let help = "Records that wait for the disk";
    page.one("audit_waiting", Kind::Gauge, help, condition.waiting);
    let help = "Records that could not be written";
    page.one("audit_lost_total", Kind::Counter, help, condition.lost);
    let help = "The number of the last line of each audit log, over all of its files; absent before the first";
    let mut last = page.metric("audit_last_line", Kind::Gauge, help);
    for (log, anchor) in core.audit.last_lines() {
        last.sample(&[("log", log)], anchor.seq);
    }
}

fn health(page: &mut Page, shown: &Shown) {
    let findings = shown.core.findings();
    let count = |level| {
        findings
            .iter()
            .filter(|finding| finding.level == level)
            .count()
    };
    page.metric(
        "findings",
        Kind::Gauge,
        "What the node would tell `rpc doctor`",
    )
    .sample(&[("level", "error")], count(Level::Error))
    .sample(&[("level", "warning")], count(Level::Warning));
    let ready = shown.hindrances(&findings).is_empty();
    page.one(
        "ready",
        Kind::Gauge,
        "Whether /readyz says yes",
        u8::from(ready),
    );
}

/// Prometheus counts in seconds.
fn seconds(time: Millis) -> String {
    format!("{}.{:03}", time / 1000, time % 1000)
}
