//! `rpc inventory`: all about one node.

use std::collections::BTreeSet;

use muster_wire::identity::Identity;

use super::context::Context;
use super::form;
use crate::ask::{Fleet, Found, Plan, Progress, Question, Schemas, Target, Words};
use crate::cli::inventory;
use crate::error::Error;
use crate::exit::Exit;
use crate::render::inventory::{Document, Inventory};
use crate::render::printable::line;
use crate::report::Report;

/// Runs the command. The node is asked both questions at once.
pub async fn run(args: inventory::Inventory, cx: Context<'_>) -> Result<Exit, Error> {
    let json = form::json(&args.json)?;
    let settings = cx.settings()?;
    let schemas = Schemas::load(Some(&settings))?;
    let target = Target {
        collective: args.target.clone(),
        ..Target::default()
    };
    let fleet = Fleet::connect(&settings, &target).await?;
    let (inventory, statistics) = tokio::try_join!(
        ask(&fleet, &schemas, "inventory", &args, cx),
        ask(&fleet, &schemas, "daemon_stats", &args, cx),
    )?;
    let page = Inventory {
        node: &args.node,
        known: &inventory,
        statistics: &statistics,
    };
    if let Some(json) = &json {
        cx.json(&Document::new(page), json)?;
    } else if inventory.stats.responses() + statistics.stats.responses() > 0 {
        cx.printer.text(page.text(cx.printer.screen().width))?;
    }
    complain(&args.node, &[&inventory, &statistics], cx);
    Ok(inventory.stats.exit().max(statistics.stats.exit()))
}

async fn ask(
    fleet: &Fleet,
    schemas: &Schemas,
    action: &str,
    args: &inventory::Inventory,
    cx: Context<'_>,
) -> Result<Report, Error> {
    let words = Words::read("rpcutil", &[action.to_owned()])?;
    let (ddl, action) = schemas.action(&words)?;
    let plan = Plan::new(ddl, action, &[])?;
    let found = Found::named(BTreeSet::from([args.node.clone()]));
    fleet
        .ask(
            Question::new(&plan),
            found,
            &Progress::new(cx.printer, false),
            |_| Ok(()),
        )
        .await
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
