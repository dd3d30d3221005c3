//! `rpc puppet status`, `count` and `summary`: read-only queries.

use serde::Serialize;

use super::PUPPET_AGENT;
use crate::cli::filters::QueryArgs;
use crate::commands::context::{CommandContext, CommandResult};
use crate::commands::inquiry::{QueryResult, query_nodes};
use crate::render::json::ReportDocument;
use crate::render::puppet::count::{PuppetCountDocument, PuppetNodeTotals};
use crate::render::puppet::status::{PuppetStatusDocument, node_states, render_status_table};
use crate::render::puppet::summary::LastRunsSummary;

pub async fn show_status(args: QueryArgs, cx: CommandContext<'_>) -> CommandResult {
    let result = query_nodes(&args, (PUPPET_AGENT, "status"), &[], cx).await?;
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
    let result = query_nodes(&args, (PUPPET_AGENT, "status"), &[], cx).await?;
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
    let result = query_nodes(&args, (PUPPET_AGENT, "last_run_summary"), &[], cx).await?;
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
    result.print_answer(&ReportDocument::new(schema, content, &result.report), || {
        cx.printer.print_text(text())?;
        cx.warn_of_failures(&result.report);
        Ok(())
    })
}
