//! `rpc history` and `rpc report`: what happened in the fleet, from the service that keeps it.

pub mod args;
pub mod output;

use muster_base::unix_millis_now;
use muster_client::documents::ServiceDocument;
use muster_contract::history::{
    HistoryQuery, HistoryQueryInput, HistoryReport, HistoryReportInput, HistoryRuns,
    HistoryRunsInput,
};
use muster_wire::token::ServiceRight;

use crate::commands::catalog::read_filter;
use crate::commands::history::args::{
    HistoryArgs, HistoryRowArgs, HistorySubject, ReportCommand, ReportShowArgs,
};
use crate::commands::history::output::{
    ReportDocument, read_report, render_history, render_report, render_runs, warn_incomplete,
};
use crate::request::service::connect_to_services;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult};

const SERVICE: ServiceRight = ServiceRight::History;

pub async fn run(args: HistoryArgs, cx: CommandContext<'_>) -> CommandResult {
    let HistoryArgs { what, value, kind, resource_type, agent, action, text, rows } = args;
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
        after: None,
    };
    let fleet = connect_to_services(None, cx).await?;
    let found = fleet.client.call_service::<HistoryQuery>(SERVICE, &input).await?;
    let document = ServiceDocument { schema: "muster.history.v1", output: &found };
    cx.print_result(json.as_ref(), &document, || render_history(&found, cx.table_width()))?;
    for warning in warn_incomplete(&found, input.since, now) {
        cx.printer.print_message(&warning);
    }
    Ok(CommandExitCode::from_found(!found.rows.is_empty()))
}

pub async fn run_report(command: ReportCommand, cx: CommandContext<'_>) -> CommandResult {
    match command {
        ReportCommand::List(args) => list(args, cx).await,
        ReportCommand::Show(args) => show(args, cx).await,
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
