//! `rpc inventory --template`: what a user's own template makes of each node, in the order of names.

use std::collections::BTreeSet;

use super::super::context::Context;
use super::super::request::nobody_found;
use super::super::{form, inquiry};
use super::turns::{self, Taken};
use crate::ask::{Fleet, Found, Progress, Schemas, Target};
use crate::cli::inventory::Inventory;
use crate::commands::form::FormError;
use crate::error::Error;
use crate::exit::Exit;
use crate::render::node_values::{NAMES, Values};
use crate::render::printable;

/// Asks the node that is named, or all that match, and prints the template for each.
pub async fn run(text: &str, args: &Inventory, cx: Context<'_>) -> Result<Exit, Error> {
    let target = match &args.node {
        Some(_) => Target::of_collective(args.filters.target.clone()),
        None => cx.target(&args.filters)?.with_agent(inquiry::AGENT)?,
    };
    let template = form::template(text, &NAMES)?;
    let settings = cx.settings()?;
    let schemas = Schemas::load(Some(&settings))?;
    let plan = inquiry::plan(&schemas, "inventory", &[])?;
    let fleet = Fleet::connect(&settings, &target).await?;
    let found = if let Some(node) = &args.node {
        Found::named(BTreeSet::from([node.clone()]))
    } else {
        let progress = Progress::new(cx.printer, true);
        fleet.discover(&target, &progress).await?
    };
    if found.nodes.is_empty() {
        nobody_found(&target, cx);
        return Ok(Exit::Local);
    }
    let total = turns::ask(&fleet, &plan, found, cx, |reply| {
        if !reply.is_ok() {
            let why = printable::line(&reply.message);
            return Ok(Taken::Bad(format!("{}: {why}", reply.node)));
        }
        let text = template
            .render(&Values::new(&reply))
            .map_err(|source| FormError::Template { source })?;
        cx.printer.text(text)?;
        Ok(Taken::Good)
    })
    .await?;
    turns::tell(&total, "and nothing to print", cx);
    Ok(total.exit())
}
