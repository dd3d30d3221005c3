//! `rpc inventory`: shows all data of one node, and reports about all nodes.

mod ansible;
pub mod args;
mod collectives;
pub mod collectives_output;
mod export;
pub mod output;
mod report;

use std::collections::BTreeSet;

use muster_client::{AgentSchemas, RequestReport, TargetSelection};
use muster_contract::rpcutil::{RpcutilDaemonStats, RpcutilInventory};
use muster_ddl::EmptyInput;
use muster_wire::identity::Identity;

use crate::commands::inventory::output::{NodeInventory, NodeInventoryDocument};
use crate::report::progress::ProgressReporter;
use crate::request::inquiry::ask_node;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult};

pub async fn run(args: args::InventoryArgs, cx: CommandContext<'_>) -> CommandResult {
    if let Some(path) = &args.validate {
        return export::validate_file(path, cx);
    }
    if args.ansible.ansible {
        return ansible::run(&args.ansible, &args.query.filters, cx).await;
    }
    if let Some(path) = &args.export {
        return export::run(path, &args, cx).await;
    }
    if let Some(text) = &args.template {
        return report::run(text, &args, cx).await;
    }
    match &args.node {
        Some(node) => show_node(&cx.complete_node_name(node.clone()), &args, cx).await,
        None => collectives::run(&args, cx).await,
    }
}

/// Sends both requests concurrently.
async fn show_node(
    node: &Identity,
    args: &args::InventoryArgs,
    cx: CommandContext<'_>,
) -> CommandResult {
    let json = args.query.json.form()?;
    let schemas = AgentSchemas::load(Some(cx.load_settings()?))?;
    let target = TargetSelection::for_collective(args.query.filters.target.clone());
    let fleet = cx.connect(&target).await?;
    let inventory_plan = schemas.plan::<RpcutilInventory>(&EmptyInput {})?;
    let statistics_plan = schemas.plan::<RpcutilDaemonStats>(&EmptyInput {})?;
    let progress = ProgressReporter::new(cx.printer, false);
    let (inventory, statistics) = tokio::try_join!(
        ask_node(&fleet, &inventory_plan, node, &progress),
        ask_node(&fleet, &statistics_plan, node, &progress),
    )?;
    let page = NodeInventory { node, known: &inventory, statistics: &statistics };
    if let Some(json) = &json {
        cx.print_json(&NodeInventoryDocument::new(page), json)?;
    } else if inventory.stats.response_count() + statistics.stats.response_count() > 0 {
        cx.printer.print_text(page.render_text(cx.width()))?;
    }
    cx.remember_inventories(&inventory);
    print_problems(node, &[&inventory, &statistics], cx);
    let exit = CommandExitCode::from(inventory.stats.outcome());
    Ok(exit.max(statistics.stats.outcome().into()))
}

/// Prints errors that the page does not contain, each one once.
fn print_problems(node: &Identity, reports: &[&RequestReport], cx: CommandContext<'_>) {
    let mut problems = BTreeSet::new();
    for report in reports {
        let stats = &report.stats;
        if stats.not_connected.contains(node) {
            problems.insert(format!("{node} is not connected"));
        } else if stats.missing.contains(node) {
            problems.insert(format!("{node} does not reply"));
        }
        for reply in report.failures() {
            let (action, message) = (&report.action, reply.message.line());
            problems.insert(format!("{node}: `rpcutil {action}` failed: {message}"));
        }
    }
    for problem in problems {
        cx.printer.print_error(problem);
    }
    cx.suggest_nodes(reports.iter().take(1).flat_map(|report| &report.stats.not_connected));
    for report in reports {
        cx.warn_of_gaps(report);
    }
}
