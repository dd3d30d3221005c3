//! `rpc puppet status`, `count` and `summary`: read-only queries.

use muster_contract::puppet::{LastRunSummaryInput, PuppetLastRunSummary, PuppetStatus};
use muster_ddl::EmptyInput;
use serde::Serialize;

use crate::commands::puppet::output::count::{PuppetCountDocument, PuppetNodeTotals};
use crate::commands::puppet::output::status::{
    PuppetStatusDocument, node_states, render_status_table,
};
use crate::commands::puppet::output::summary::LastRunsSummary;
use crate::flags::filters::QueryArgs;
use crate::request::inquiry::{QueryResult, query_nodes};
use crate::session::context::{CommandContext, CommandResult};

pub async fn show_status(args: QueryArgs, cx: CommandContext<'_>) -> CommandResult {
    let result = query_nodes::<PuppetStatus>(&args, &EmptyInput {}, cx).await?;
    let states = node_states(&result.report);
    print_report(
        &result,
        "muster.puppet.status.v1",
        PuppetStatusDocument { nodes: &states },
        cx,
        || render_status_table(&states, &result.report, cx.table_width()),
    )
}

pub async fn show_counts(args: QueryArgs, cx: CommandContext<'_>) -> CommandResult {
    let result = query_nodes::<PuppetStatus>(&args, &EmptyInput {}, cx).await?;
    let totals = PuppetNodeTotals::from_report(&result.report);
    print_report(
        &result,
        "muster.puppet.count.v1",
        PuppetCountDocument { nodes: &totals },
        cx,
        || totals.render_text(&result.report),
    )
}

/// Shows the distribution of the last runs' figures.
pub async fn show_summary(args: QueryArgs, cx: CommandContext<'_>) -> CommandResult {
    let input = LastRunSummaryInput { logs: false };
    let result = query_nodes::<PuppetLastRunSummary>(&args, &input, cx).await?;
    let summary = LastRunsSummary::from_report(&result.report);
    print_report(&result, "muster.puppet.summary.v1", &summary, cx, || {
        summary.render_text(&result.report, cx.environment.utf8)
    })
}

fn print_report(
    result: &QueryResult<'_>,
    schema: &'static str,
    content: impl Serialize,
    cx: CommandContext<'_>,
    text: impl FnOnce() -> String,
) -> CommandResult {
    result.print_answer(schema, content, || {
        cx.printer.print_text(text())?;
        cx.warn_of_failures(&result.report);
        Ok(())
    })
}
