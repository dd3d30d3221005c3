//! Jobs for people and programs: a line for each, one in full, and two held against each other.

use std::collections::{BTreeMap, BTreeSet};

use muster_wire::identity::Identity;
use serde::Serialize;
use serde_json::Value;

use super::columns::columns;
use super::page::Page;
use super::plan::counted;
use super::printable::line;
use crate::clock;
use crate::jobs::{Answered, Job};
use crate::printer::{BAD, GOOD, STRONG};

/// Columns before everything below a title.
const INDENT: usize = 3;

/// A line for each job.
pub fn list(jobs: &[Job]) -> String {
    let mut page = Page::default();
    for job in jobs {
        let header = &job.header;
        let name = header
            .name
            .as_ref()
            .map(|name| format!("  ({name})"))
            .unwrap_or_default();
        page.line(format_args!(
            "{id}  {state:<11}  {ok:>5} / {all:<5}  {agent} {action}{name}",
            id = header.id,
            state = job.state().word(),
            ok = job.ok(),
            all = header.nodes.len(),
            agent = line(&header.agent),
            action = line(&header.action),
        ));
    }
    page.text()
}

/// One job in full.
pub fn show(job: &Job, width: usize) -> String {
    let header = &job.header;
    let mut page = Page::default();
    let inputs = header
        .inputs
        .iter()
        .map(|(name, value)| format!("{}={}", line(name), line(&shown(value))));
    let rows = [
        ("Job", header.id.clone()),
        (
            "Name",
            header
                .name
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default(),
        ),
        ("State", job.state().word().to_owned()),
        (
            "Asked for",
            format!("{} {}", line(&header.agent), line(&header.action)),
        ),
        ("Inputs", inputs.collect::<Vec<_>>().join(" ")),
        ("Of", line(&header.target).into_owned()),
        ("Collective", header.collective.to_string()),
        ("Retry of", header.retry_of.clone().unwrap_or_default()),
        ("Started", clock::written(header.started / 1000)),
        (
            "Ended",
            job.end
                .map(|(_, time)| clock::written(time / 1000))
                .unwrap_or_default(),
        ),
        ("Requests", job.requests().join(" ")),
        (
            "Nodes",
            format!("{} ({} succeeded)", header.nodes.len(), job.ok()),
        ),
    ];
    for (title, text) in rows.iter().filter(|(_, text)| !text.is_empty()) {
        page.line(format_args!("{title:>12}: {text}"));
    }
    page.gap();
    failures(job, &mut page);
    for (title, nodes) in [
        ("Asked, and did not answer:", job.unanswered()),
        ("Never asked:", job.never_asked()),
    ] {
        names(title, &nodes, width, &mut page);
    }
    page.text()
}

fn failures(job: &Job, page: &mut Page) {
    let mut failed = job
        .replies
        .values()
        .filter(|answer| !answer.is_ok())
        .peekable();
    if failed.peek().is_none() {
        return;
    }
    page.line(format_args!("{BAD}Failed:{BAD:#}\n"));
    for answer in failed {
        page.line(format_args!(
            "{:INDENT$}{STRONG}{}{STRONG:#}: {}",
            "",
            answer.sender,
            said(answer)
        ));
    }
    page.gap();
}

fn names(title: &str, nodes: &BTreeSet<Identity>, width: usize, page: &mut Page) {
    if nodes.is_empty() {
        return;
    }
    let names: Vec<&str> = nodes.iter().map(Identity::as_str).collect();
    page.line(format_args!("{BAD}{title}{BAD:#}\n"));
    page.add(columns(&names, INDENT, width));
    page.gap();
}

/// How a node's answer ended, on one line.
fn said(answer: &Answered) -> String {
    let word = answer
        .reason
        .as_ref()
        .map(|reason| format!(" ({})", reason.word()));
    let text = answer.statuscode.text();
    if answer.is_ok() {
        return text.to_owned();
    }
    format!(
        "{text}{}: {}",
        word.unwrap_or_default(),
        line(&answer.statusmsg)
    )
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// What nodes of two jobs answered differently.
#[derive(Debug, Default)]
pub struct Difference {
    /// How many answered the same.
    same: usize,
    /// What changed, by node.
    changed: BTreeMap<Identity, Vec<Change>>,
    /// Nodes that answered only in one of them.
    only_before: BTreeSet<Identity>,
    only_after: BTreeSet<Identity>,
}

/// One thing that changed.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Change {
    /// `status`, or an output.
    what: String,
    before: Value,
    after: Value,
}

impl Difference {
    /// Holds the answers of two jobs against each other. Outputs that were too large to keep are not compared.
    pub fn between(before: &Job, after: &Job) -> Self {
        let mut difference = Self::default();
        let all: BTreeSet<&Identity> = before.replies.keys().chain(after.replies.keys()).collect();
        for node in all {
            match (before.replies.get(node), after.replies.get(node)) {
                (Some(old), Some(new)) => match changes(old, new) {
                    changes if changes.is_empty() => difference.same += 1,
                    changes => drop(difference.changed.insert(node.clone(), changes)),
                },
                (Some(_), None) => drop(difference.only_before.insert(node.clone())),
                _ => drop(difference.only_after.insert(node.clone())),
            }
        }
        difference
    }

    /// Whether they answered the same.
    pub fn is_none(&self) -> bool {
        self.changed.is_empty() && self.only_before.is_empty() && self.only_after.is_empty()
    }

    /// For people.
    pub fn text(&self, width: usize) -> String {
        let mut page = Page::default();
        for (node, changes) in &self.changed {
            page.line(format_args!("{STRONG}{node}{STRONG:#}"));
            for Change {
                what,
                before,
                after,
            } in changes
            {
                let (what, before, after) = (line(what), shown(before), shown(after));
                page.line(format_args!(
                    "   {what}: {} -> {}",
                    line(&before),
                    line(&after)
                ));
            }
        }
        page.gap();
        names(
            "Answered only in the earlier job:",
            &self.only_before,
            width,
            &mut page,
        );
        names(
            "Answered only in the later job:",
            &self.only_after,
            width,
            &mut page,
        );
        let style = if self.is_none() { GOOD } else { BAD };
        let changed = self.changed.len();
        page.line(format_args!(
            "{} answered the same, {style}{changed} differently{style:#}",
            counted(self.same)
        ));
        page.text()
    }
}

fn changes(before: &Answered, after: &Answered) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut note = |what: &str, before: Value, after: Value| {
        if before != after {
            let what = what.to_owned();
            changes.push(Change {
                what,
                before,
                after,
            });
        }
    };
    note("status", said(before).into(), said(after).into());
    if before.data_omitted.is_none() && after.data_omitted.is_none() {
        let outputs: BTreeSet<&String> = before.data.keys().chain(after.data.keys()).collect();
        let value =
            |answer: &Answered, output| answer.data.get(output).cloned().unwrap_or_default();
        for output in outputs {
            note(output, value(before, output), value(after, output));
        }
    }
    changes
}

/// The document of a difference.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DiffDocument<'a> {
    schema: &'static str,
    same: usize,
    changed: &'a BTreeMap<Identity, Vec<Change>>,
    only_before: &'a BTreeSet<Identity>,
    only_after: &'a BTreeSet<Identity>,
}

impl<'a> DiffDocument<'a> {
    /// The document of this difference.
    pub fn new(difference: &'a Difference) -> Self {
        let Difference {
            same,
            changed,
            only_before,
            only_after,
        } = difference;
        Self {
            schema: "muster.job.diff.v1",
            same: *same,
            changed,
            only_before,
            only_after,
        }
    }
}

/// The document of all jobs.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ListDocument<'a> {
    schema: &'static str,
    jobs: Vec<Summary<'a>>,
}

impl<'a> ListDocument<'a> {
    /// The document of these jobs.
    pub fn new(jobs: &'a [Job]) -> Self {
        Self {
            schema: "muster.jobs.v1",
            jobs: jobs.iter().map(Summary::new).collect(),
        }
    }
}

/// What every document says of a job.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Summary<'a> {
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    state: &'static str,
    agent: &'a str,
    action: &'a str,
    start_time_utc: String,
    nodes: usize,
    ok: usize,
    failed: usize,
    no_responses: usize,
    never_asked: usize,
}

impl<'a> Summary<'a> {
    fn new(job: &'a Job) -> Self {
        let header = &job.header;
        Self {
            id: &header.id,
            name: header
                .name
                .as_ref()
                .map(muster_wire::identity::Name::as_str),
            state: job.state().word(),
            agent: &header.agent,
            action: &header.action,
            start_time_utc: clock::rfc3339(header.started),
            nodes: header.nodes.len(),
            ok: job.ok(),
            failed: job.failed().len(),
            no_responses: job.unanswered().len(),
            never_asked: job.never_asked().len(),
        }
    }
}

/// The document of one job.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct JobDocument<'a> {
    schema: &'static str,
    job: Summary<'a>,
    inputs: &'a serde_json::Map<String, Value>,
    target: &'a str,
    collective: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_of: Option<&'a str>,
    requestids: Vec<&'a str>,
    /// The identity of each node's run, where nodes are asked for runs.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    runs: BTreeMap<&'a Identity, String>,
    nodes: &'a BTreeSet<Identity>,
    no_responses: BTreeSet<Identity>,
    not_connected: &'a BTreeSet<Identity>,
    never_asked: BTreeSet<Identity>,
    replies: Vec<&'a Answered>,
    damaged_lines: usize,
}

impl<'a> JobDocument<'a> {
    /// The document of this job.
    pub fn new(job: &'a Job) -> Self {
        let header = &job.header;
        Self {
            schema: "muster.job.v1",
            job: Summary::new(job),
            inputs: &header.inputs,
            target: &header.target,
            collective: header.collective.as_str(),
            retry_of: header.retry_of.as_deref(),
            requestids: job.requests(),
            runs: job
                .runs
                .iter()
                .map(|(node, run)| (node, run.to_string()))
                .collect(),
            nodes: &header.nodes,
            no_responses: job.unanswered(),
            not_connected: &job.not_connected,
            never_asked: job.never_asked(),
            replies: job.replies.values().collect(),
            damaged_lines: job.damaged,
        }
    }
}

#[cfg(test)]
mod tests;
