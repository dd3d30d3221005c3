//! Renders what happened, lists of runs, and the report of one. Texts of nodes are escaped.

use std::fmt::Write as _;

use muster_base::{NodeText, format_millis};
use muster_contract::history::{
    HistoryDriftOutput, HistoryQueryOutput, HistoryReportOutput, HistoryRow, HistoryRunRow,
    HistoryRunsOutput,
};
use muster_display::TextPage;
use muster_display::table::Table;
use muster_display::time::format_time_millis;
use muster_wire::Millis;
use muster_wire::compressed::{CompressedJsonError, decompress_json};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::report::history_rows::{
    MAX_CELL_LINES, by_text, dash, result_text, run_by_text, run_status_text, runs_table,
    text_or_dash, what_text,
};
use crate::session::context::CommandError;

/// JSON of a report.
const MAX_REPORT_BYTES: usize = 64 * 1024 * 1024;

/// The report in an answer cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the report in the answer of the history")]
pub struct ReportReadError(#[from] CompressedJsonError);

impl CommandError for ReportReadError {}

/// The document of `rpc report show`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ReportDocument<'a> {
    schema: &'static str,
    /// The run, as in a list.
    run: &'a HistoryRunRow,
    /// The report in Puppet's format 12.
    report: &'a Map<String, Value>,
}

impl<'a> ReportDocument<'a> {
    pub fn new(run: &'a HistoryRunRow, report: &'a Map<String, Value>) -> Self {
        Self { schema: "muster.report.v1", run, report }
    }
}

pub fn read_report(output: &HistoryReportOutput) -> Result<Map<String, Value>, ReportReadError> {
    Ok(decompress_json(&output.report, MAX_REPORT_BYTES)?)
}

/// A row as a line of a growing list.
pub fn render_row_line(row: &HistoryRow) -> String {
    let (time, node, who) =
        (format_time_millis(row.time), &row.node, text_or_dash(row.who.as_ref()));
    format!("{time}  {node}  {who}  {}  {}  {}", by_text(row), what_text(row), result_text(row))
}

pub fn render_drift(found: &HistoryDriftOutput, width: usize, now: Millis) -> String {
    if found.rows.is_empty() {
        return "no node differs from its last catalog\n".to_owned();
    }
    let mut table =
        Table::new(["NODES", "RESOURCE", "PROPERTY", "DIFFERENCE", "SINCE", "FOR", "NAMES"]);
    for row in &found.rows {
        let message = row.message.as_ref().map(|message| message.line().into_owned());
        let difference = match (&row.before, &row.after) {
            (Some(before), Some(after)) => format!("{} -> {}", before.line(), after.line()),
            _ => message.unwrap_or_else(dash),
        };
        let surplus = row.count.saturating_sub(u64::try_from(row.nodes.len()).unwrap_or(u64::MAX));
        let mut names = row.nodes.join(", ");
        if surplus > 0 {
            let _ = write!(names, ", and {surplus} more");
        }
        table.row([
            row.count.to_string(),
            row.resource.line().into_owned(),
            text_or_dash(row.property.as_ref()),
            difference,
            format_time_millis(row.since),
            format_millis(now.saturating_sub(row.since)),
            names,
        ]);
    }
    let mut text = table.max_lines(Some(MAX_CELL_LINES)).render(width);
    if found.more {
        text.push_str("there are more differences; select fewer nodes\n");
    }
    text
}

/// What the rows leave out.
pub fn warn_incomplete(
    found: &HistoryQueryOutput,
    since: Option<Millis>,
    now: Millis,
) -> Vec<String> {
    let mut warnings = Vec::new();
    if found.rows.is_empty() {
        warnings.push("nothing found".to_owned());
    }
    if found.next.is_some() {
        warnings.push("there are older rows; raise --limit, or set --until".to_owned());
    }
    if found.behind > 0 {
        let behind = found.behind;
        warnings.push(format!("the service has not read {behind} messages of nodes yet"));
    }
    match found.complete_since {
        Some(complete) if since.is_some_and(|since| since < complete) => {
            let begin = format_time_millis(complete);
            warnings.push(format!("the history begins at {begin}"));
        }
        None if since.is_some_and(|since| since < now) => {
            warnings.push("the history is empty: no node has reported anything yet".to_owned());
        }
        _ => {}
    }
    warnings
}

pub fn render_runs(found: &HistoryRunsOutput, width: usize) -> String {
    let mut text = runs_table(&found.runs).render_rows(width);
    if found.more {
        text.push_str("there are older runs; raise --limit, or set --until\n");
    }
    text
}

pub fn render_report(document: &ReportDocument<'_>, width: usize) -> String {
    let ReportDocument { run, report, .. } = document;
    let mut page = TextPage::default();
    let ended = run.ended.map_or_else(|| "goes on".to_owned(), format_time_millis);
    page.push_line(format_args!("node     {}", run.node));
    page.push_line(format_args!("run      {}", run.run));
    page.push_line(format_args!("began    {}", format_time_millis(run.started)));
    page.push_line(format_args!("ended    {ended}"));
    page.push_line(format_args!("by       {}", run_by_text(run)));
    let counts = format!("{} changed, {} failed of {}", run.changed, run.failed, run.resources);
    page.push_line(format_args!("result   {}: {counts}", run_status_text(run)));
    if let Some(problem) = &run.problem {
        page.push_line(format_args!("problem  {}", problem.line()));
    }
    let mut table = Table::new(["RESOURCE", "RESULT", "MESSAGE"]);
    let statuses = report.get("resource_statuses").and_then(Value::as_object);
    for status in statuses.into_iter().flat_map(Map::values) {
        let resource = text_of(status, "resource");
        let events = status.get("events").and_then(Value::as_array);
        for event in events.into_iter().flatten() {
            let result = text_of(event, "status");
            let is_bad = result.line() == "failure";
            table
                .row([resource.line(), result.line(), text_of(event, "message").line()])
                .failed_if(is_bad);
        }
    }
    if !table.is_empty() {
        page.push_line(format_args!(""));
        page.push_text(table.max_lines(Some(MAX_CELL_LINES)).render(width));
    }
    let logs = report.get("logs").and_then(Value::as_array);
    let warnings = logs
        .into_iter()
        .flatten()
        .filter(|log| !matches!(&*text_of(log, "level").line(), "debug" | "info" | "notice"));
    for log in warnings {
        let (level, source) = (text_of(log, "level"), text_of(log, "source"));
        let message = text_of(log, "message");
        page.push_line(format_args!("{}: {}: {}", level.line(), source.line(), message.line()));
    }
    page.into_text()
}

/// A text of a report: a node wrote it.
fn text_of(value: &Value, name: &str) -> NodeText {
    value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned().into()
}
