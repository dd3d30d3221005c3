//! `rpc stats`: shows the counters of accepted and rejected requests of daemons since their start.

use super::context::CommandContext;
use super::request::report_no_nodes;
use super::{form, inquiry};
use crate::cli::stats::StatsArgs;
use crate::error::Error;
use crate::exit::CommandExitCode;
use crate::render::stats::{DaemonStatsDocument, read_daemon_counts, render_counts_table};

/// Runs the command.
pub async fn run(args: StatsArgs, cx: CommandContext<'_>) -> Result<CommandExitCode, Error> {
    let target = cx.read_target(&args.filters)?.with_agent(inquiry::RPCUTIL_AGENT)?;
    let json = form::parse_json_form(&args.json)?;
    let settings = cx.load_settings()?;
    let schemas = cx.load_schemas(Some(&settings))?;
    let plan = inquiry::plan_rpcutil(&schemas, "daemon_stats", &[])?;
    let report = inquiry::discover_and_ask(&plan, &target, &settings, json.is_none(), cx).await?;
    let counts = read_daemon_counts(&report);
    if let Some(json) = &json {
        cx.print_json(&DaemonStatsDocument::new(&counts, &report), json)?;
    } else if report.stats.discovered == 0 {
        report_no_nodes(&target, cx);
    } else {
        let width = cx.printer.screen().width;
        cx.printer.print_text(render_counts_table(&counts, &report, width))?;
    }
    cx.warn_of_gaps(&report);
    Ok(report.stats.outcome().into())
}
