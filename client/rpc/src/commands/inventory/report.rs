//! `rpc inventory --template`: renders a user-defined template for each node, in order of names.

use std::collections::BTreeSet;

use muster_request::{AgentSchemas, DiscoveredNodes, FleetConnection, TargetSelection};

use super::super::context::CommandContext;
use super::super::request::report_no_nodes;
use super::super::{form, inquiry};
use super::batches::{self, ReplyVerdict};
use crate::cli::inventory::InventoryArgs;
use crate::commands::form::OutputFormError;
use crate::error::Error;
use crate::exit::CommandExitCode;
use crate::progress::ProgressReporter;
use crate::render::node_values::{InventoryTemplateValues, TEMPLATE_NAMES};
use crate::render::printable;

/// Asks the named node, or all matching ones, and prints the rendered template for each.
pub async fn run(
    text: &str,
    args: &InventoryArgs,
    cx: CommandContext<'_>,
) -> Result<CommandExitCode, Error> {
    let target = match &args.node {
        Some(_) => TargetSelection::for_collective(args.filters.target.clone()),
        None => cx.read_target(&args.filters)?.with_agent(inquiry::RPCUTIL_AGENT)?,
    };
    let template = form::parse_template(text, &TEMPLATE_NAMES)?;
    let settings = cx.load_settings()?;
    let schemas = AgentSchemas::load(Some(&settings))?;
    let plan = inquiry::plan_rpcutil(&schemas, "inventory", &[])?;
    let fleet = FleetConnection::connect(&settings, &target).await?;
    let found = if let Some(node) = &args.node {
        DiscoveredNodes::from_names(BTreeSet::from([node.clone()]))
    } else {
        let progress = ProgressReporter::new(cx.printer, true);
        fleet.discover_nodes(&target, &progress).await?
    };
    if found.nodes.is_empty() {
        report_no_nodes(&target, cx);
        return Ok(CommandExitCode::Local);
    }
    let total = batches::ask_in_batches(&fleet, &plan, found, cx, |reply| {
        if !reply.is_ok() {
            let reason = printable::escape_to_line(&reply.message);
            return Ok(ReplyVerdict::Rejected(format!("{}: {reason}", reply.node)));
        }
        let text = template
            .render(&InventoryTemplateValues::new(&reply))
            .map_err(|source| OutputFormError::Template { source })?;
        cx.printer.print_text(text)?;
        Ok(ReplyVerdict::Accepted)
    })
    .await?;
    batches::report_missing(&total, "nothing printed", cx);
    Ok(total.outcome().into())
}
