//! Documents of a rollout of Puppet runs: all of it at the end, or one line per event.

use std::collections::{BTreeMap, BTreeSet};

use muster_base::{NodeText, duration_millis, format_rfc3339};
use muster_calls::runs::RunOutcome;
use muster_wire::identity::Identity;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::puppet_runs::{EndedRun, PuppetRunsReport};

/// The document for programs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PuppetRunsDocument<'a> {
    schema: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<&'a str>,
    /// Maximum number of concurrent runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<usize>,
    start_time_utc: String,
    took_ms: u64,
    /// Number of runs by outcome class.
    counts: BTreeMap<&'a str, usize>,
    ok: usize,
    failed: usize,
    nodes: Vec<PuppetRunDocument<'a>>,
    /// Nodes that were skipped because Puppet is disabled, with the reason.
    disabled: &'a BTreeMap<Identity, NodeText>,
    not_asked: &'a BTreeSet<Identity>,
    /// Why some nodes were sent no request.
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    proof: Option<ConcurrencyDocument>,
    disbelieved: &'a BTreeMap<&'static str, usize>,
    requestids: &'a [String],
}

/// Outcome of one node's run.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PuppetRunDocument<'a> {
    node: &'a Identity,
    ok: bool,
    /// Outcome class.
    class: &'a str,
    /// Outcome in a sentence.
    message: &'a NodeText,
    /// The run id; for a repeated id the node returns the same result.
    run: String,
    /// Whether the outcome was already stored in the resumed job.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    earlier: bool,
    /// The outputs of `puppet runonce`.
    #[serde(skip_serializing_if = "Map::is_empty")]
    data: &'a Map<String, Value>,
}

/// Statistics of the times that the nodes report.
#[derive(Debug, Serialize, JsonSchema)]
struct ConcurrencyDocument {
    runs: usize,
    /// Maximum number of runs at the same time, as nodes measured it in the pool: those that others started count too.
    highest_concurrency: usize,
    work_ms: u64,
    longest_ms: u64,
    makespan_ms: u64,
    /// Minimum time for these runs with the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    least_ms: Option<u64>,
    /// Number of nodes whose times were corrected, because their clocks differ by more than a second.
    clocks_set_right: usize,
}

impl<'a> PuppetRunDocument<'a> {
    /// The document of one run.
    pub fn new(node: &'a Identity, ended: &'a EndedRun) -> Self {
        let RunOutcome { ok, class, message, data, .. } = &ended.outcome;
        Self {
            node,
            ok: *ok,
            class,
            message,
            run: ended.run.to_string(),
            earlier: ended.earlier,
            data,
        }
    }
}

impl<'a> PuppetRunsDocument<'a> {
    /// The document of all runs.
    pub fn new(runs: &'a PuppetRunsReport) -> Self {
        let nodes = runs.ended.iter();
        let classes = runs.nodes_by_class().into_iter();
        Self {
            schema: "muster.puppet.runs.v1",
            job: runs.job.as_deref(),
            limit: runs.limit,
            start_time_utc: format_rfc3339(runs.started),
            took_ms: duration_millis(runs.took),
            counts: classes.map(|(class, nodes)| (class, nodes.len())).collect(),
            ok: runs.ok_count(),
            failed: runs.unsuccessful_count(),
            nodes: nodes.map(|(node, ended)| PuppetRunDocument::new(node, ended)).collect(),
            disabled: &runs.disabled,
            not_asked: &runs.not_asked,
            stopped: runs.halt.map(|halt| halt.to_string()),
            proof: runs.concurrency_stats().map(|stats| ConcurrencyDocument {
                runs: stats.runs,
                highest_concurrency: stats.highest,
                work_ms: duration_millis(stats.work),
                longest_ms: duration_millis(stats.longest),
                makespan_ms: duration_millis(stats.makespan),
                least_ms: runs.limit.map(|limit| duration_millis(stats.least_duration(limit))),
                clocks_set_right: runs.skewed_clock_count(),
            }),
            disbelieved: &runs.rejected,
            requestids: &runs.requests,
        }
    }
}

/// One event, as a line of JSON. The first line contains the schema; readers must ignore unknown kinds and fields.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PuppetRunsJsonLine<'a> {
    /// The nodes, in the order of their requests: the first line.
    Found {
        /// The schema of all lines, and its version.
        schema: &'static str,
        /// The nodes.
        nodes: Vec<&'a Identity>,
        /// Nodes that are skipped because Puppet is disabled, with the reason.
        disabled: &'a BTreeMap<Identity, NodeText>,
        /// Maximum number of concurrent runs.
        #[serde(skip_serializing_if = "Option::is_none")]
        limit: Option<usize>,
        /// The job in which the runs are stored.
        #[serde(skip_serializing_if = "Option::is_none")]
        job: Option<&'a str>,
    },
    /// A node's run has begun.
    Running {
        /// The node.
        node: &'a Identity,
        /// Number of current runs, including this one.
        concurrency: usize,
    },
    /// A node's run has ended, or the node is given up.
    Ended(PuppetRunDocument<'a>),
    /// All runs have ended: everything that `-j` prints, except the individual runs.
    Summary {
        /// The summary.
        runs: Box<PuppetRunsDocument<'a>>,
    },
    /// Why the command failed: the last line, and often the only one.
    Error {
        /// The error message.
        error: String,
    },
}

impl<'a> PuppetRunsJsonLine<'a> {
    /// The first line.
    pub fn found(order: Vec<&'a Identity>, runs: &'a PuppetRunsReport) -> Self {
        Self::Found {
            schema: "muster.puppet.runs.lines.v1",
            nodes: order,
            disabled: &runs.disabled,
            limit: runs.limit,
            job: runs.job.as_deref(),
        }
    }

    /// The last line.
    pub fn summary(runs: &'a PuppetRunsReport) -> Self {
        let mut document = PuppetRunsDocument::new(runs);
        document.nodes.clear();
        Self::Summary { runs: Box::new(document) }
    }
}
