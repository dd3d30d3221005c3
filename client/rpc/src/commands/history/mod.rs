//! `rpc history` and `rpc report`: what happened in the fleet, from the service that keeps it.

pub mod args;
pub mod output;
pub mod statistics;

use std::time::Duration;

use muster_base::{error_chain, unix_millis_now};
use muster_client::documents::ServiceDocument;
use muster_contract::history::{
    HistoryDrift, HistoryDriftInput, HistoryDriftOutput, HistoryQuery, HistoryQueryInput,
    HistoryReport, HistoryReportInput, HistoryRuns, HistoryRunsInput, HistoryStatistics,
    HistoryStatisticsInput, HistoryStatisticsOutput,
};
use muster_wire::token::ServiceRight;
use tokio::time::sleep;

use crate::commands::catalog::read_filter;
use crate::commands::history::args::{
    DriftArgs, HistoryArgs, HistoryRowArgs, HistorySubject, ReportCommand, ReportShowArgs,
    ReportStatsArgs,
};
use crate::commands::history::output::{
    ReportDocument, read_report, render_drift, render_report, render_row_line, render_runs,
    warn_incomplete,
};
use crate::commands::history::statistics::render_statistics;
use crate::report::history_rows::history_table;
use crate::request::service::{connect_to_services, query_service};
use crate::session::context::{CommandContext, CommandExitCode, CommandResult};
use crate::session::form::JsonForm;

const SERVICE: ServiceRight = ServiceRight::History;
/// How often new rows are asked for.
const FOLLOW_INTERVAL: Duration = Duration::from_secs(1);
/// Rows that are shown before new ones.
const FIRST_ROWS: u32 = 20;

pub async fn run(args: HistoryArgs, cx: CommandContext<'_>) -> CommandResult {
    let HistoryArgs { what, value, kind, resource_type, agent, action, text, follow, rows } = args;
    let (json, now) = (rows.json.form()?, unix_millis_now());
    let value = |subject| value.clone().filter(|_| what == Some(subject));
    let input = HistoryQueryInput {
        filter: read_filter(rows.conditions, cx)?,
        since: rows.since.map(|time| time.millis(now)),
        until: rows.until.map(|time| time.millis(now)),
        kind,
        who: value(HistorySubject::Who),
        request: value(HistorySubject::Request),
        run: value(HistorySubject::Run),
        release: value(HistorySubject::Release),
        agent,
        action,
        resource: value(HistorySubject::Resource),
        resource_type,
        changed: rows.changed.then_some(true),
        failed: rows.failed.then_some(true),
        text,
        limit: Some(rows.limit),
        ..HistoryQueryInput::default()
    };
    if follow {
        return follow_rows(input, json.as_ref(), cx).await;
    }
    let fleet = connect_to_services(None, cx).await?;
    let found = fleet.client.call_service::<HistoryQuery>(SERVICE, &input).await?;
    let document = ServiceDocument { schema: "muster.history.v1", output: &found };
    cx.print_result(json.as_ref(), &document, || {
        history_table(&found.rows).render_rows(cx.table_width())
    })?;
    for warning in warn_incomplete(&found, input.since, now) {
        cx.printer.print_message(&warning);
    }
    Ok(CommandExitCode::from_found(!found.rows.is_empty()))
}

pub async fn run_report(command: ReportCommand, cx: CommandContext<'_>) -> CommandResult {
    match command {
        ReportCommand::List(args) => list(args, cx).await,
        ReportCommand::Show(args) => show(args, cx).await,
        ReportCommand::Stats(args) => show_statistics(args, cx).await,
        ReportCommand::Follow(args) => {
            let json = args.json.form()?;
            let input = HistoryQueryInput {
                filter: read_filter(args.conditions, cx)?,
                in_runs: Some(true),
                changed: args.changed.then_some(true),
                failed: args.failed.then_some(true),
                limit: Some(FIRST_ROWS),
                ..HistoryQueryInput::default()
            };
            follow_rows(input, json.as_ref(), cx).await
        }
    }
}

pub async fn run_drift(args: DriftArgs, cx: CommandContext<'_>) -> CommandResult {
    let input = HistoryDriftInput { filter: read_filter(args.conditions, cx)? };
    let output = (&args.json, "muster.drift.v1");
    let width = cx.table_width();
    let render = |found: &HistoryDriftOutput| render_drift(found, width, unix_millis_now());
    query_service::<HistoryDrift>(SERVICE, &input, output, render, cx).await
}

async fn show_statistics(args: ReportStatsArgs, cx: CommandContext<'_>) -> CommandResult {
    let now = unix_millis_now();
    let (since, until) =
        (args.since.millis(now), args.until.map_or(now, |until| until.millis(now)));
    let filter = read_filter(args.conditions, cx)?;
    let input = HistoryStatisticsInput { filter, since, until };
    let output = (&args.json, "muster.statistics.v1");
    let width = cx.table_width();
    let render = |found: &HistoryStatisticsOutput| render_statistics(found, (since, until), width);
    query_service::<HistoryStatistics>(SERVICE, &input, output, render, cx).await
}

/// Prints the newest rows, the oldest of them first, and then each one that the service takes. The position of an answer is valid in each instance.
async fn follow_rows(
    mut input: HistoryQueryInput,
    json: Option<&JsonForm>,
    cx: CommandContext<'_>,
) -> CommandResult {
    let fleet = connect_to_services(None, cx).await?;
    loop {
        match fleet.client.call_service::<HistoryQuery>(SERVICE, &input).await {
            Ok(mut found) => {
                if input.from.is_none() {
                    found.rows.reverse();
                }
                for row in &found.rows {
                    match json {
                        Some(form) => cx.print_json_line(row, form)?,
                        None => cx.printer.print_line(render_row_line(row))?,
                    }
                }
                let has_more = !found.rows.is_empty() && input.from.is_some();
                input.from = found.position.or(input.from);
                input.limit = None;
                if has_more {
                    continue;
                }
            }
            // The position is kept: nothing is missed.
            Err(error) if input.from.is_some() => {
                cx.printer.print_warning(format!("{}; trying again", error_chain(&error)));
            }
            Err(error) => return Err(error.into()),
        }
        sleep(FOLLOW_INTERVAL).await;
    }
}

async fn list(rows: HistoryRowArgs, cx: CommandContext<'_>) -> CommandResult {
    let (json, now) = (rows.json.form()?, unix_millis_now());
    let input = HistoryRunsInput {
        filter: read_filter(rows.conditions, cx)?,
        since: rows.since.map(|time| time.millis(now)),
        until: rows.until.map(|time| time.millis(now)),
        failed: rows.failed.then_some(true),
        changed: rows.changed.then_some(true),
        limit: Some(rows.limit),
    };
    let fleet = connect_to_services(None, cx).await?;
    let found = fleet.client.call_service::<HistoryRuns>(SERVICE, &input).await?;
    let document = ServiceDocument { schema: "muster.runs.v1", output: &found };
    cx.print_result(json.as_ref(), &document, || render_runs(&found, cx.table_width()))?;
    if found.runs.is_empty() {
        cx.printer.print_message("no runs found");
    }
    Ok(CommandExitCode::from_found(!found.runs.is_empty()))
}

async fn show(args: ReportShowArgs, cx: CommandContext<'_>) -> CommandResult {
    let json = args.json.form()?;
    let input = HistoryReportInput {
        node: args.node.to_string(),
        run: args.run.map(|run| run.to_string()),
    };
    let fleet = connect_to_services(None, cx).await?;
    let found = fleet.client.call_service::<HistoryReport>(SERVICE, &input).await?;
    let report = read_report(&found)?;
    let document = ReportDocument::new(&found.run, &report);
    cx.print_result(json.as_ref(), &document, || render_report(&document, cx.table_width()))?;
    Ok(CommandExitCode::Passed)
}
