//! `rpc stats`: shows the counters of accepted and rejected requests of daemons since their start.

use super::inquiry::{RPCUTIL_AGENT, query_nodes};
use crate::cli::filters::QueryArgs;
use crate::commands::context::{CommandContext, CommandResult};
use crate::render::json::ReportDocument;
use crate::render::stats::{DaemonStatsDocument, read_daemon_counts, render_counts_table};

pub async fn run(args: QueryArgs, cx: CommandContext<'_>) -> CommandResult {
    let result = query_nodes(&args, (RPCUTIL_AGENT, "daemon_stats"), &[], cx).await?;
    let counts = read_daemon_counts(&result.report);
    let content = DaemonStatsDocument { nodes: &counts };
    let document = ReportDocument::new("muster.stats.v1", content, &result.report);
    result.print_answer(&document, || {
        let text = render_counts_table(&counts, &result.report, cx.table_width());
        Ok(cx.printer.print_text(text)?)
    })
}
