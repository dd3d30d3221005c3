//! Rows of the history of the fleet: what happened, and runs, in tables of several commands. Texts of nodes are escaped.

use muster_base::NodeText;
use muster_contract::history::{HistoryRow, HistoryRunRow};
use muster_display::table::Table;
use muster_display::time::format_time_millis;

/// Characters of an id that are shown: they have its time in milliseconds.
const SHORT_ID_LENGTH: usize = 13;
/// Lines of a cell.
pub const MAX_CELL_LINES: usize = 3;

/// A table of what happened.
pub fn history_table(rows: &[HistoryRow]) -> Table {
    let mut table = Table::new(["TIME", "NODE", "WHO", "BY", "REQUEST", "WHAT", "RESULT"]);
    for row in rows {
        let cells = [
            format_time_millis(row.time),
            row.node.clone(),
            text_or_dash(row.who.as_ref()),
            by_text(row),
            row.request.as_ref().map_or_else(dash, |id| short_id(&id.line())),
            what_text(row),
            result_text(row),
        ];
        let is_bad = matches!(
            &*row.status.line(),
            "denied" | "refused" | "failure" | "failed" | "aborted" | "gap"
        );
        table.row(cells).failed_if(is_bad);
    }
    table.max_lines(Some(MAX_CELL_LINES));
    table
}

/// A table of runs.
pub fn runs_table(runs: &[HistoryRunRow]) -> Table {
    let mut table = Table::new([
        "STARTED", "NODE", "STATUS", "CHANGED", "FAILED", "OF", "SECONDS", "BY", "RUN",
    ]);
    for run in runs {
        table.row([
            format_time_millis(run.started),
            run.node.clone(),
            run_status_text(run),
            run.changed.to_string(),
            run.failed.to_string(),
            run.resources.to_string(),
            run.ended
                .map_or_else(dash, |ended| (ended.saturating_sub(run.started) / 1000).to_string()),
            run_by_text(run),
            run.run.clone(),
        ]);
        table.failed_if(matches!(&*run.status.line(), "failed" | "aborted"));
    }
    table.max_lines(Some(MAX_CELL_LINES));
    table
}

/// The action, the schedule, or the release.
pub fn by_text(row: &HistoryRow) -> String {
    let action = match (&row.agent, &row.action) {
        (Some(agent), Some(action)) => Some(format!("{} {}", agent.line(), action.line())),
        _ => None,
    };
    let release = row.release.as_ref().map(|release| format!("release {}", release.line()));
    let schedule = row.schedule.as_ref().map(|schedule| format!("schedule {}", schedule.line()));
    let parts: Vec<String> = [action, release, schedule].into_iter().flatten().collect();
    if parts.is_empty() { dash() } else { parts.join(", ") }
}

/// The beginning of an id that has its time: two requests of one millisecond have the same.
fn short_id(id: &str) -> String {
    id.chars().take(SHORT_ID_LENGTH).collect()
}

pub fn what_text(row: &HistoryRow) -> String {
    let message = row.message.as_ref().map(|message| message.line().into_owned());
    match &row.resource {
        Some(resource) => {
            let property =
                row.property.as_ref().map(|name| format!(" {}", name.line())).unwrap_or_default();
            let values = match (&row.before, &row.after) {
                (Some(before), Some(after)) => format!("{} -> {}", before.line(), after.line()),
                _ => message.unwrap_or_default(),
            };
            format!("{}{property}: {values}", resource.line())
        }
        None if row.kind.line() == "run" => format!("run: {}", message.unwrap_or_default()),
        None => message.unwrap_or_else(dash),
    }
}

pub fn result_text(row: &HistoryRow) -> String {
    let status = row.status.line().into_owned();
    match &row.approver {
        Some(approver) => format!("{status}, approved by {}", approver.line()),
        None => status,
    }
}

pub fn run_status_text(run: &HistoryRunRow) -> String {
    let status = run.status.line();
    if run.noop { format!("{status}, noop") } else { status.into_owned() }
}

pub fn run_by_text(run: &HistoryRunRow) -> String {
    let release = run.release.as_ref().map(|release| format!("release {}", release.line()));
    let who = run.who.as_ref().map(|who| who.line().into_owned());
    let parts: Vec<String> = [who, release].into_iter().flatten().collect();
    if parts.is_empty() { dash() } else { parts.join(", ") }
}

pub fn text_or_dash(text: Option<&NodeText>) -> String {
    text.map_or_else(dash, |text| text.line().into_owned())
}

pub fn dash() -> String {
    "-".to_owned()
}
