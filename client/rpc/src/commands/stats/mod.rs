//! `rpc stats`: shows the counters of accepted and rejected requests of daemons since their start.

pub mod output;

use crate::commands::stats::output::{
    DaemonStatsDocument, read_daemon_counts, render_counts_table,
};
use crate::flags::filters::QueryArgs;
use crate::report::documents::ReportDocument;
use crate::request::inquiry::{RPCUTIL_AGENT, query_nodes};
use crate::session::context::{CommandContext, CommandResult};

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
