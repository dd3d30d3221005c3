//! Renders jobs: as a list, in full, and as a comparison of two.

use std::collections::{BTreeMap, BTreeSet};

use muster_base::format_rfc3339;
use muster_client::jobs::{JobFleet, JobReply, RequestOutcome, SavedJob};
use muster_display::columns::format_columns;
use muster_display::printer::{BAD, GOOD, STRONG};
use muster_display::table::Table;
use muster_display::time::format_time_millis;
use muster_display::value::compact_value;
use muster_display::{TextPage, node_count_text};
use muster_wire::identity::Identity;
use serde::Serialize;
use serde_json::Value;

use crate::report::job_request::{job_action_text, job_inputs_text, job_request_line};
use crate::report::status::outcome_text;

/// Indentation below a title, in columns.
const INDENT: usize = 3;

/// Renders a table with one row per job; nothing without jobs.
pub fn render_job_list(jobs: &[SavedJob], width: usize) -> String {
    let mut table = Table::new(["JOB", "STARTED", "FLEET", "STATE", "RESULT", "REQUEST"]);
    for job in jobs {
        table.row(job_cells(job)).failed_if(job.outcome() != RequestOutcome::Succeeded);
    }
    table.max_lines(Some(2)).render_rows(width)
}

fn job_cells(job: &SavedJob) -> [String; 6] {
    let header = &job.header;
    [
        header.id.clone(),
        format_time_millis(header.started),
        header.fleet.as_ref().map_or("-".to_owned(), fleet_name),
        job.state().as_str().to_owned(),
        result_text(job),
        job_request_line(header),
    ]
}

fn fleet_name(fleet: &JobFleet) -> String {
    fleet.name.clone()
}

/// Number of successful nodes, and the reasons why others are missing.
fn result_text(job: &SavedJob) -> String {
    let mut parts = vec![format!("{}/{} ok", job.ok_count(), job.header.nodes.len())];
    for (nodes, state) in [
        (job.failed_nodes(), "failed"),
        (job.unanswered_nodes(), "no response"),
        (job.never_asked_nodes(), "not called"),
    ] {
        parts.extend((!nodes.is_empty()).then(|| format!("{} {state}", nodes.len())));
    }
    parts.join(", ")
}

pub fn render_job(job: &SavedJob, width: usize) -> String {
    let header = &job.header;
    let mut page = TextPage::default();
    let fleet = header.fleet.as_ref();
    let rows = [
        ("Job", header.id.clone()),
        ("Name", header.name.as_ref().map(ToString::to_string).unwrap_or_default()),
        ("State", job.state().as_str().to_owned()),
        ("Action", job_action_text(header)),
        ("Inputs", job_inputs_text(header)),
        ("Target", header.target.clone()),
        ("Fleet", fleet.map(fleet_name).unwrap_or_default()),
        ("Account", fleet.map(|fleet| fleet.account.to_string()).unwrap_or_default()),
        ("Collective", header.collective.to_string()),
        ("Retry of", header.retry_of.clone().unwrap_or_default()),
        ("Started", format_time_millis(header.started)),
        ("Ended", job.end.map(|(_, time)| format_time_millis(time)).unwrap_or_default()),
        ("Requests", job.request_ids().join(" ")),
        ("Nodes", format!("{} ({} succeeded)", header.nodes.len(), job.ok_count())),
    ];
    page.push_fields(12, rows.iter().filter(|(_, text)| !text.is_empty()).cloned());
    page.push_gap();
    add_failures(job, &mut page);
    for (title, nodes) in [
        ("No response from:", job.unanswered_nodes()),
        ("No request sent to:", job.never_asked_nodes()),
    ] {
        add_names(title, &nodes, width, &mut page);
    }
    page.into_text()
}

fn add_failures(job: &SavedJob, page: &mut TextPage) {
    let mut failed = job.replies.values().filter(|answer| !answer.is_ok()).peekable();
    if failed.peek().is_none() {
        return;
    }
    page.push_heading(format_args!("{BAD}Failed:{BAD:#}"));
    for answer in failed {
        let (sender, status) = (&answer.sender, reply_status_line(answer));
        page.push_line(format_args!("{:INDENT$}{STRONG}{sender}{STRONG:#}: {status}", ""));
    }
    page.push_gap();
}

fn add_names(title: &str, nodes: &BTreeSet<Identity>, width: usize, page: &mut TextPage) {
    if nodes.is_empty() {
        return;
    }
    let names: Vec<&str> = nodes.iter().map(Identity::as_str).collect();
    page.push_heading(format_args!("{BAD}{title}{BAD:#}"));
    page.push_text(format_columns(&names, INDENT, width));
    page.push_gap();
}

fn reply_status_line(reply: &JobReply) -> String {
    outcome_text(reply.statuscode, reply.reason.as_ref(), &reply.statusmsg.block())
}

/// The document of a difference.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct JobDifference {
    schema: &'static str,
    // Number of equal replies.
    same: usize,
    // Changes by node.
    changed: BTreeMap<Identity, Vec<JobReplyChange>>,
    // Nodes that replied only in the first job, and only in the second.
    only_before: BTreeSet<Identity>,
    only_after: BTreeSet<Identity>,
}

/// One change.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct JobReplyChange {
    /// `status`, or an output.
    what: String,
    before: Value,
    after: Value,
}

impl JobDifference {
    /// Compares the replies of two jobs. Outputs that were too large to store are not compared.
    pub fn between_jobs(before: &SavedJob, after: &SavedJob) -> Self {
        let mut difference = Self { schema: "muster.job.diff.v1", ..Self::default() };
        let all: BTreeSet<&Identity> = before.replies.keys().chain(after.replies.keys()).collect();
        for node in all {
            match (before.replies.get(node), after.replies.get(node)) {
                (Some(previous), Some(current)) => match reply_changes(previous, current) {
                    changes if changes.is_empty() => difference.same += 1,
                    changes => drop(difference.changed.insert(node.clone(), changes)),
                },
                (Some(_), None) => drop(difference.only_before.insert(node.clone())),
                _ => drop(difference.only_after.insert(node.clone())),
            }
        }
        difference
    }

    /// Whether all replies are equal.
    pub fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.only_before.is_empty() && self.only_after.is_empty()
    }

    pub fn render_text(&self, width: usize) -> String {
        let mut page = TextPage::default();
        for (node, changes) in &self.changed {
            page.push_line(format_args!("{STRONG}{node}{STRONG:#}"));
            for JobReplyChange { what, before, after } in changes {
                let (before, after) = (compact_value(before), compact_value(after));
                page.push_line(format_args!("   {what}: {before} -> {after}"));
            }
        }
        page.push_gap();
        add_names("Replied only in the earlier job:", &self.only_before, width, &mut page);
        add_names("Replied only in the later job:", &self.only_after, width, &mut page);
        let style = if self.is_empty() { GOOD } else { BAD };
        let changed = self.changed.len();
        page.push_line(format_args!(
            "{} with the same reply, {style}{changed} with different replies{style:#}",
            node_count_text(self.same)
        ));
        page.into_text()
    }
}

fn reply_changes(before: &JobReply, after: &JobReply) -> Vec<JobReplyChange> {
    let mut changes = Vec::new();
    let mut add_change = |what: &str, before: Value, after: Value| {
        if before != after {
            let what = what.to_owned();
            changes.push(JobReplyChange { what, before, after });
        }
    };
    add_change("status", reply_status_line(before).into(), reply_status_line(after).into());
    if before.data_omitted.is_none() && after.data_omitted.is_none() {
        let outputs: BTreeSet<&String> = before.data.keys().chain(after.data.keys()).collect();
        let value =
            |answer: &JobReply, output| answer.data.get(output).cloned().unwrap_or_default();
        for output in outputs {
            add_change(output, value(before, output), value(after, output));
        }
    }
    changes
}

/// The document of all jobs.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct JobListDocument<'a> {
    schema: &'static str,
    jobs: Vec<JobSummaryDocument<'a>>,
}

impl<'a> JobListDocument<'a> {
    pub fn new(jobs: &'a [SavedJob]) -> Self {
        Self { schema: "muster.jobs.v1", jobs: jobs.iter().map(JobSummaryDocument::new).collect() }
    }
}

/// Summary of a job.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct JobSummaryDocument<'a> {
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    fleet: Option<&'a JobFleet>,
    collective: &'a str,
    agent: &'a str,
    action: &'a str,
    inputs: &'a serde_json::Map<String, Value>,
    start_time_utc: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    end_time_utc: Option<String>,
    nodes: usize,
    ok: usize,
    failed: usize,
    no_responses: usize,
    never_asked: usize,
}

impl<'a> JobSummaryDocument<'a> {
    fn new(job: &'a SavedJob) -> Self {
        let header = &job.header;
        Self {
            id: &header.id,
            name: header.name.as_ref().map(muster_wire::identity::SubjectName::as_str),
            state: job.state().as_str(),
            fleet: header.fleet.as_ref(),
            collective: header.collective.as_str(),
            agent: &header.agent,
            action: &header.action,
            inputs: &header.inputs,
            start_time_utc: format_rfc3339(header.started),
            end_time_utc: job.end.map(|(_, time)| format_rfc3339(time)),
            nodes: header.nodes.len(),
            ok: job.ok_count(),
            failed: job.failed_nodes().len(),
            no_responses: job.unanswered_nodes().len(),
            never_asked: job.never_asked_nodes().len(),
        }
    }
}

/// The document of one job.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct JobDocument<'a> {
    schema: &'static str,
    job: JobSummaryDocument<'a>,
    inputs: &'a serde_json::Map<String, Value>,
    target: &'a str,
    collective: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_of: Option<&'a str>,
    requestids: Vec<&'a str>,
    /// The run id of each node, for jobs of Puppet runs.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    runs: BTreeMap<&'a Identity, String>,
    nodes: &'a BTreeSet<Identity>,
    no_responses: BTreeSet<Identity>,
    not_connected: &'a BTreeSet<Identity>,
    never_asked: BTreeSet<Identity>,
    replies: Vec<&'a JobReply>,
    damaged_lines: usize,
}

impl<'a> JobDocument<'a> {
    pub fn new(job: &'a SavedJob) -> Self {
        let header = &job.header;
        Self {
            schema: "muster.job.v1",
            job: JobSummaryDocument::new(job),
            inputs: &header.inputs,
            target: &header.target,
            collective: header.collective.as_str(),
            retry_of: header.retry_of.as_deref(),
            requestids: job.request_ids(),
            runs: job.runs.iter().map(|(node, run)| (node, run.to_string())).collect(),
            nodes: &header.nodes,
            no_responses: job.unanswered_nodes(),
            not_connected: &job.not_connected,
            never_asked: job.never_asked_nodes(),
            replies: job.replies.values().collect(),
            damaged_lines: job.damaged,
        }
    }
}

#[cfg(test)]
mod tests;
