//! Rows of reports and of their events, from the history. The events of a run are read only if a query needs them.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use muster_history::index::{HistoryIndex, ReportRow, ReportSelection};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::error::Result;
use super::row::{Row, VisitRow};
use super::scope::QueryScope;
use super::sources::{DEFAULT_ENVIRONMENT, PRODUCER, QuerySources};
use crate::forms::{FormSource, ReportSource, format_time, report_form};

/// Runs that are read from the index at once.
const PAGE_RUNS: usize = 500;

/// The id of a report: that of the run, without hyphens.
pub(super) fn hash_of(row: &ReportRow) -> String {
    row.run.replace('-', "")
}

/// `PuppetDB` does not know runs that were cut off.
pub(super) fn status_of(row: &ReportRow) -> &str {
    if row.status == "aborted" { "failed" } else { &row.status }
}

pub(super) fn environment_of(row: &ReportRow) -> &str {
    row.environment.as_deref().unwrap_or(DEFAULT_ENVIRONMENT)
}

impl QuerySources {
    pub(super) fn visit_reports<'a>(
        &'a self,
        scope: &QueryScope,
        visit: VisitRow<'_, 'a>,
    ) -> Result<()> {
        let Some(history) = &self.history else { return Ok(()) };
        visit_runs(history, scope, &mut |run| {
            let known = report_summary(&run);
            visit(Row::with_rest(known, move || read_report(history, &run)))
        })
    }

    pub(super) fn visit_events<'a>(
        &'a self,
        scope: &QueryScope,
        visit: VisitRow<'_, 'a>,
    ) -> Result<()> {
        let Some(history) = &self.history else { return Ok(()) };
        visit_runs(history, scope, &mut |run| {
            if !run.has_events {
                return Ok(ControlFlow::Continue(()));
            }
            for mut event in read_events(history, &run)? {
                event.extend(event_context(&run));
                if visit(Row::new(event))?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            Ok(ControlFlow::Continue(()))
        })
    }
}

/// Visits runs, the newest first. The index is free between the pages.
fn visit_runs(
    history: &HistoryIndex,
    scope: &QueryScope,
    visit: &mut dyn FnMut(ReportRow) -> Result<ControlFlow<()>>,
) -> Result<()> {
    let runs: Option<BTreeSet<String>> = scope.reports.as_ref().map(|hashes| {
        let ids = hashes.iter().filter_map(|hash| Uuid::try_parse(hash).ok());
        ids.map(|id| id.to_string()).collect()
    });
    let selection = ReportSelection { nodes: scope.certnames.as_ref(), runs: runs.as_ref() };
    if scope.is_latest {
        for run in history.latest_reports(selection)? {
            if visit(run)?.is_break() {
                break;
            }
        }
        return Ok(());
    }
    let mut last: Option<ReportRow> = None;
    loop {
        let page = history.reports(selection, last.as_ref(), PAGE_RUNS)?;
        let is_last = page.len() < PAGE_RUNS;
        last = page.last().cloned();
        for run in page {
            if visit(run)?.is_break() {
                return Ok(());
            }
        }
        if is_last {
            return Ok(());
        }
    }
}

fn report_summary(run: &ReportRow) -> Map<String, Value> {
    let ended = format_time(run.ended);
    let summary = json!({
        "hash": hash_of(run),
        "certname": run.node,
        "puppet_version": run.puppet_version.as_deref().unwrap_or_default(),
        "configuration_version": run.configuration_version.as_deref().unwrap_or_default(),
        "start_time": format_time(run.started),
        "end_time": ended,
        "producer_timestamp": ended,
        "receive_time": ended,
        "producer": PRODUCER,
        "cached_catalog_status": run.cached_catalog_status,
        "environment": environment_of(run),
        "status": status_of(run),
        "type": "agent",
        "noop": run.noop,
        "noop_pending": run.noop_pending,
        "corrective_change": run.corrective_change,
        "latest_report?": run.is_latest,
    });
    summary.as_object().cloned().unwrap_or_default()
}

/// The form of a report for `PuppetDB`; empty if the run was deleted meanwhile.
fn read_form(history: &HistoryIndex, run: &ReportRow) -> Result<Map<String, Value>> {
    let Some((_, folded)) = history.report(&run.node, Some(&run.run))? else {
        return Ok(Map::new());
    };
    let form = FormSource {
        certname: &run.node,
        environment: DEFAULT_ENVIRONMENT,
        producer: PRODUCER,
        producer_timestamp: run.ended,
    };
    let source = ReportSource { form, run: folded.run, started: run.started };
    Ok(report_form(&folded.report, source))
}

/// What the summary of a report lacks.
fn read_report(history: &HistoryIndex, run: &ReportRow) -> Result<Map<String, Value>> {
    let mut form = read_form(history, run)?;
    let events: Vec<Value> = events_of(&form).into_iter().map(Value::Object).collect();
    for (name, path) in [("metrics", "metrics"), ("logs", "logs"), ("resource_events", "events")] {
        let data = form.remove(name).unwrap_or_else(|| events.clone().into());
        let href = format!("/pdb/query/v4/reports/{}/{path}", hash_of(run));
        form.insert(name.to_owned(), json!({"href": href, "data": data}));
    }
    Ok(form)
}

fn read_events(history: &HistoryIndex, run: &ReportRow) -> Result<Vec<Map<String, Value>>> {
    Ok(events_of(&read_form(history, run)?))
}

/// What events say of their run.
fn event_context(run: &ReportRow) -> Map<String, Value> {
    let context = json!({
        "certname": run.node,
        "report": hash_of(run),
        "environment": environment_of(run),
        "configuration_version": run.configuration_version.as_deref().unwrap_or_default(),
        "run_start_time": format_time(run.started),
        "run_end_time": format_time(run.ended),
        "report_receive_time": format_time(run.ended),
        "latest_report?": run.is_latest,
    });
    context.as_object().cloned().unwrap_or_default()
}

/// The events of a report. A resource that was skipped has one without a property.
fn events_of(form: &Map<String, Value>) -> Vec<Map<String, Value>> {
    let resources = form.get("resources").and_then(Value::as_array).into_iter().flatten();
    let mut found = Vec::new();
    for resource in resources {
        let part = |name: &str| resource.get(name).cloned().unwrap_or_default();
        let skipped = json!({
            "status": "skipped", "timestamp": part("timestamp"), "name": null, "property": null,
            "new_value": null, "old_value": null, "message": null, "corrective_change": null,
        });
        let events = resource.get("events").and_then(Value::as_array);
        let events = events.filter(|events| !events.is_empty());
        let events = events.map_or_else(|| vec![skipped], Clone::clone);
        for event in events {
            let mut event = event.as_object().cloned().unwrap_or_default();
            for name in ["resource_type", "resource_title", "file", "line", "containment_path"] {
                event.insert(name.to_owned(), part(name));
            }
            let class = containing_class(resource.get("containment_path"));
            event.insert("containing_class".to_owned(), class);
            found.push(event);
        }
    }
    found
}

/// The innermost part of a containment path that names a class.
fn containing_class(path: Option<&Value>) -> Value {
    let parts = path.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let is_class = |part: &&str| {
        part.starts_with(|first: char| first.is_ascii_uppercase()) && !part.contains('[')
    };
    parts.iter().rev().filter_map(Value::as_str).find(is_class).map_or(Value::Null, Value::from)
}
