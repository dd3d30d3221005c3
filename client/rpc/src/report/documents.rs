//! Renders results as JSON documents. Every document names its schema and version in `schema`; within a version, fields are only added. A request's
//! document has the fields of Choria's clients, with times in nanoseconds, and additional ones.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_base::format_rfc3339;
use muster_calls::RolloutStopReason;
use muster_client::{NodeReply, RequestReport, RequestStats};
use muster_ddl::aggregate;
use muster_wire::identity::Identity;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::report::trace;

/// The document for programs.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ReportDocument<'a, T> {
    schema: &'static str,
    #[serde(flatten)]
    content: T,
    request_stats: RequestStatsDocument<'a>,
}

impl<'a, T> ReportDocument<'a, T> {
    pub fn new(schema: &'static str, content: T, report: &'a RequestReport) -> Self {
        Self { schema, content, request_stats: RequestStatsDocument::new(&report.stats) }
    }
}

/// The document of a request.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RequestDocument<'a> {
    schema: &'static str,
    agent: &'a str,
    action: &'a str,
    /// The job that stores the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<&'a str>,
    replies: &'a [NodeReply],
    #[serde(rename = "request_stats")]
    stats: RequestStatsDocument<'a>,
    /// Why the rollout ended before all nodes received the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    stop: Option<RolloutStopDocument>,
    summaries: Map<String, Value>,
}

impl<'a> RequestDocument<'a> {
    pub fn new(report: &'a RequestReport) -> Self {
        Self {
            schema: "muster.request.v1",
            agent: &report.agent,
            action: &report.action,
            job: report.job.as_deref(),
            replies: &report.replies,
            stats: RequestStatsDocument::new(&report.stats),
            stop: report.stop.map(RolloutStopDocument::new),
            summaries: aggregate::summaries_to_json(&report.summaries),
        }
    }
}

/// Why a rollout ended early.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RolloutStopDocument {
    /// `canary`, `failures`, `interrupted` or `broken`.
    why: &'static str,
    /// The reason in a sentence.
    message: String,
}

impl RolloutStopDocument {
    pub fn new(reason: RolloutStopReason) -> Self {
        let why = match reason {
            RolloutStopReason::Canary { .. } => "canary",
            RolloutStopReason::Failures { .. } => "failures",
            RolloutStopReason::Interrupted => "interrupted",
            RolloutStopReason::Broken => "broken",
        };
        Self { why, message: reason.to_string() }
    }
}

/// Counts, names and times; times in nanoseconds.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RequestStatsDocument<'a> {
    requestid: Option<&'a str>,
    requestids: &'a [String],
    no_responses: Vec<&'a Identity>,
    not_connected: Vec<&'a Identity>,
    not_asked: Vec<&'a Identity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wanted: Option<usize>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_awaited: Vec<&'a Identity>,
    unexpected_responses: Vec<&'a Identity>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cloned: Vec<&'a Identity>,
    disbelieved: &'a BTreeMap<&'static str, usize>,
    discovered: usize,
    failed: usize,
    ok: usize,
    responses: usize,
    incomplete: bool,
    gaps: Vec<&'static str>,
    publish_time: u64,
    request_time: u64,
    discover_time: u64,
    start_time_utc: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<trace::CallerTraceDocument>,
}

impl<'a> RequestStatsDocument<'a> {
    pub fn new(stats: &'a RequestStats) -> Self {
        Self {
            requestid: stats.requests.first().map(String::as_str),
            requestids: &stats.requests,
            no_responses: stats.missing.iter().collect(),
            not_connected: stats.not_connected.iter().collect(),
            not_asked: stats.not_asked.iter().collect(),
            wanted: stats.expected_replies,
            not_awaited: stats.not_awaited.iter().collect(),
            unexpected_responses: stats.unexpected.iter().collect(),
            cloned: stats.cloned.iter().collect(),
            disbelieved: &stats.rejected,
            discovered: stats.discovered,
            failed: stats.failed,
            ok: stats.ok,
            responses: stats.response_count(),
            incomplete: !stats.gaps.is_empty(),
            gaps: stats.gaps.iter().map(|gap| gap.as_str()).collect(),
            publish_time: saturating_nanos(stats.publishing),
            request_time: saturating_nanos(stats.call_duration()),
            discover_time: saturating_nanos(stats.discovering),
            start_time_utc: format_rfc3339(stats.started),
            trace: trace::CallerTraceDocument::new(stats),
        }
    }
}

fn saturating_nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
