//! `rpc facts`: counts the values of a fact across the fleet.

use super::inquiry::{RPCUTIL_AGENT, query_nodes};
use crate::cli::facts::FactsArgs;
use crate::commands::context::{CommandContext, CommandResult};
use crate::completion::memory::SeenNamesCache;
use crate::render::facts::{FactsDocument, group_fact_values, render_fact_bars, render_fact_table};
use crate::render::json::ReportDocument;

/// Runs the command.
pub async fn run(args: FactsArgs, cx: CommandContext<'_>) -> CommandResult {
    let inputs = [("fact", args.fact.as_str())];
    let result = query_nodes(&args.query, (RPCUTIL_AGENT, "get_fact"), &inputs, cx).await?;
    let mut groups = group_fact_values(&result.report);
    let mut seen = SeenNamesCache::default();
    for group in groups.iter().filter(|group| !group.value().is_null()) {
        seen.add_fact(&args.fact, group.value());
    }
    cx.remember_names(seen);
    if args.reverse {
        groups.reverse();
    }
    let (show_nodes, screen) = (args.show_nodes || cx.is_verbose(), cx.printer.screen());
    let content = FactsDocument { fact: &args.fact, values: &groups };
    let document = ReportDocument::new("muster.facts.v1", content, &result.report);
    result.print_answer(&document, || {
        let text = if args.table {
            render_fact_table(&groups, show_nodes, screen)
        } else {
            render_fact_bars(&args.fact, &groups, &result.report, show_nodes, screen)
        };
        Ok(cx.printer.print_text(text)?)
    })
}
