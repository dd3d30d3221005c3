//! `rpc inventory`: all about one node, and reports about all of them.

mod collectives;
mod error;
mod export;
mod report;
mod turns;

use std::collections::BTreeSet;

use muster_wire::identity::Identity;
use muster_wire::state::Facts;

use super::context::Context;
use super::{form, inquiry};
use crate::ask::{Fleet, Found, Progress, Schemas, Target};
use crate::cli::inventory;
use crate::completion::memory::Memory;
use crate::error::Error;
use crate::exit::Exit;
use crate::render::inventory::{Document, Inventory};
use crate::render::printable::line;
use crate::report::Report;

pub use error::InventoryFileError;

/// Runs the command.
pub async fn run(args: inventory::Inventory, cx: Context<'_>) -> Result<Exit, Error> {
    if let Some(path) = &args.validate {
        return export::validate(path, cx);
    }
    if let Some(path) = &args.export {
        return export::run(path, args.update, &args.filters, cx).await;
    }
    if let Some(text) = &args.template {
        return report::run(text, &args, cx).await;
    }
    match &args.node {
        Some(node) => about(node, &args, cx).await,
        None => collectives::run(&args, cx).await,
    }
}

/// All about one node, which is asked both questions at once.
async fn about(
    node: &Identity,
    args: &inventory::Inventory,
    cx: Context<'_>,
) -> Result<Exit, Error> {
    let json = form::json(&args.json)?;
    let settings = cx.settings()?;
    let schemas = Schemas::load(Some(&settings))?;
    let target = Target::of_collective(args.filters.target.clone());
    let fleet = Fleet::connect(&settings, &target).await?;
    let (inventory, statistics) = tokio::try_join!(
        ask(&fleet, &schemas, "inventory", node, cx),
        ask(&fleet, &schemas, "daemon_stats", node, cx),
    )?;
    let page = Inventory {
        node,
        known: &inventory,
        statistics: &statistics,
    };
    if let Some(json) = &json {
        cx.json(&Document::new(page), json)?;
    } else if inventory.stats.responses() + statistics.stats.responses() > 0 {
        cx.printer.text(page.text(cx.printer.screen().width))?;
    }
    remember(&inventory, cx);
    complain(node, &[&inventory, &statistics], cx);
    Ok(inventory.stats.exit().max(statistics.stats.exit()))
}

/// Keeps the names of facts for completion.
fn remember(inventory: &Report, cx: Context<'_>) {
    let data = inventory.replies.iter().map(|reply| &reply.data);
    let facts = data.filter_map(|data| data.get("facts").cloned());
    let facts = facts.filter_map(|facts| Facts::from_value(facts).ok());
    let names = facts.flat_map(|facts| {
        let leaves = facts.leaves().into_iter().map(|(name, _)| name);
        leaves.collect::<Vec<String>>()
    });
    let seen = Memory {
        facts: names.collect(),
        ..Memory::default()
    };
    Memory::add(cx.environment, seen);
}

async fn ask(
    fleet: &Fleet,
    schemas: &Schemas,
    action: &str,
    node: &Identity,
    cx: Context<'_>,
) -> Result<Report, Error> {
    let plan = inquiry::plan(schemas, action, &[])?;
    let found = Found::named(BTreeSet::from([node.clone()]));
    inquiry::ask(fleet, &plan, found, &Progress::new(cx.printer, false)).await
}

/// Says what the page cannot show; the same only once.
fn complain(node: &Identity, reports: &[&Report], cx: Context<'_>) {
    let mut said = BTreeSet::new();
    for report in reports {
        let stats = &report.stats;
        if stats.not_connected.contains(node) {
            said.insert(format!("{node} is not connected"));
        } else if stats.missing.contains(node) {
            said.insert(format!("{node} does not answer"));
        }
        for reply in report.replies.iter().filter(|reply| !reply.is_ok()) {
            let (action, message) = (&report.action, line(&reply.message));
            said.insert(format!("{node} answers to `rpcutil {action}`: {message}"));
        }
    }
    for complaint in said {
        cx.printer.error(complaint);
    }
    for report in reports {
        cx.warn_of_gaps(report);
    }
}
