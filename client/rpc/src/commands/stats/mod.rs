//! `rpc stats`: shows the counters of accepted and rejected requests of daemons since their start.

pub mod output;

use muster_contract::rpcutil::RpcutilDaemonStats;
use muster_ddl::EmptyInput;

use crate::commands::stats::output::{
    DaemonStatsDocument, read_daemon_counts, render_counts_table,
};
use crate::flags::filters::QueryArgs;
use crate::request::inquiry::query_nodes;
use crate::session::context::{CommandContext, CommandResult};

pub const AFTER_HELP: &str = "Examples:
  rpc stats                          counters of all daemons
  rpc stats -C apache
  rpc stats -j --jq '.nodes[] | select(.replayed > 0) | .node'

Counters since the start of the daemon: TOTAL is all received requests. REFUSED
were not authentic: missing, invalid or foreign signature, another collective,
or a role without permission to send requests. EXPIRED were too old or from the
future, REPLAYED were seen before, OTHERS were for other nodes, DENIED were
denied by a policy. REPLIES is the number of replies.";

pub async fn run(args: QueryArgs, cx: CommandContext<'_>) -> CommandResult {
    let result = query_nodes::<RpcutilDaemonStats>(&args, &EmptyInput {}, cx).await?;
    let counts = read_daemon_counts(&result.report);
    let content = DaemonStatsDocument { nodes: &counts };
    result.print_answer("muster.stats.v1", content, || {
        let text = render_counts_table(&counts, &result.report, cx.table_width());
        Ok(cx.printer.print_text(text)?)
    })
}
