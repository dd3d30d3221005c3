//! The document of a node for programs.

use std::collections::BTreeMap;

use muster_base::format_rfc3339;
use muster_client::jobs::SavedJob;
use muster_contract::directory::DirectoryShowOutput;
use muster_contract::history::{HistoryRow, HistoryRunRow};
use muster_contract::rpcutil::AgentProblemRow;
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::status::ReplyStatus;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::commands::node::sections::NodeSections;
use crate::report::check_rows::FleetCheckRow;

/// The document of `rpc node -j`. A section that could not be read is null, and `unavailable` has the reason.
#[derive(Debug, Serialize, JsonSchema)]
pub struct NodeDocument<'a> {
    schema: &'static str,
    /// `directory`, or `node` if the node itself was asked; then agents have no versions, and `revision` is 0.
    source: &'static str,
    /// Whether the node signed what the directory says, if that was checked.
    verified: Option<bool>,
    #[serde(flatten)]
    record: &'a DirectoryShowOutput,
    /// Names of data sources, from the node itself only.
    data_sources: Option<&'a [String]>,
    /// External agents that could not be loaded, from the node itself only.
    agent_problems: Option<&'a [AgentProblemRow]>,
    /// What `rpcutil daemon_stats` replied.
    daemon: Option<&'a Map<String, Value>>,
    /// Scheduled checks.
    checks: Vec<FleetCheckRow<'a>>,
    /// The newest runs.
    runs: Option<&'a [HistoryRunRow]>,
    /// The newest changes, and requests that may have changed something.
    history: Option<&'a [HistoryRow]>,
    /// The newest jobs of this user that were sent to the node.
    jobs: Option<Vec<NodeJobRow<'a>>>,
    /// Why a section is null, by its name; `directory` if it was not able to answer.
    unavailable: BTreeMap<&'static str, &'a str>,
}

/// A job of the document.
#[derive(Debug, Serialize, JsonSchema)]
struct NodeJobRow<'a> {
    id: &'a str,
    name: Option<&'a str>,
    agent: &'a str,
    action: &'a str,
    start_time_utc: String,
    /// The status of the node's reply, if it replied.
    statuscode: Option<ReplyStatus>,
}

impl<'a> NodeDocument<'a> {
    pub fn new(sections: &'a NodeSections, node: &Identity) -> Self {
        let NodeSections { record, checks, daemon, runs, history, jobs } = sections;
        let problems = [
            ("directory", record.directory_problem.as_deref()),
            ("daemon", daemon.as_ref().err().map(String::as_str)),
            ("runs", runs.as_ref().err().map(String::as_str)),
            ("history", history.as_ref().err().map(String::as_str)),
            ("jobs", jobs.as_ref().err().map(String::as_str)),
        ];
        let live = record.live.as_ref();
        let jobs = jobs.as_ref().ok();
        Self {
            schema: "muster.node.v1",
            source: if live.is_some() { "node" } else { "directory" },
            verified: record.verified,
            record: &record.output,
            data_sources: live.map(|live| live.data_sources.as_slice()),
            agent_problems: live.map(|live| live.agent_problems.as_slice()),
            daemon: daemon.as_ref().ok(),
            checks: checks.checks.iter().map(FleetCheckRow::new).collect(),
            runs: runs.as_ref().ok().map(|found| found.runs.as_slice()),
            history: history.as_ref().ok().map(|found| found.rows.as_slice()),
            jobs: jobs.map(|jobs| jobs.iter().map(|job| NodeJobRow::new(job, node)).collect()),
            unavailable: problems
                .into_iter()
                .filter_map(|(name, problem)| Some((name, problem?)))
                .collect(),
        }
    }
}

impl<'a> NodeJobRow<'a> {
    fn new(job: &'a SavedJob, node: &Identity) -> Self {
        let header = &job.header;
        Self {
            id: &header.id,
            name: header.name.as_ref().map(SubjectName::as_str),
            agent: &header.agent,
            action: &header.action,
            start_time_utc: format_rfc3339(header.started),
            statuscode: job.replies.get(node).map(|reply| reply.statuscode),
        }
    }
}
