//! `rpc find`: prints the names of the matching nodes, one per line. The broadcast method always sends a ping, even for named nodes. The
//! other methods print their result without a ping and do not need the broker.

pub mod args;
pub mod output;
mod unanswered;
pub mod verify;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use muster_calls::DiscoveryMethod;
use muster_client::{AgentSchemas, Located, ResultGap, locate_offline};
use muster_display::{list_first_nodes, node_count_text};
use muster_wire::identity::Identity;
use unanswered::{UnansweredNodes, find_unanswered, warn_of_unanswered};

use crate::commands::find::args::FindArgs;
use crate::commands::find::output::{FoundNodesDocument, TEMPLATE_NAMES, discovery_sentence};
use crate::report::progress::MessagePrinter;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult};
use crate::session::form;
use crate::session::form::OutputFormError;

/// Most names of nodes in a message.
const MAX_NAMED_NODES: usize = 10;

pub async fn run(mut args: FindArgs, cx: CommandContext<'_>) -> CommandResult {
    args.named.add_to(&mut args.query.filters);
    let target = cx.read_target(&args.query.filters)?;
    let json = args.query.json.form()?;
    let template = args.template.as_deref();
    let template = template.map(|text| form::parse_template(text, &TEMPLATE_NAMES)).transpose()?;
    if let Some(template) = &template {
        template.check_fields("node", &[]).map_err(OutputFormError::from)?;
    }
    if args.verify {
        return verify::run(&target, json.as_ref(), cx).await;
    }
    let settings = cx.load_settings()?;
    let started = Instant::now();
    let mut unanswered = UnansweredNodes::new();
    let located = if let Some(located) =
        locate_offline(&target, settings, &MessagePrinter(cx.printer)).await?
    {
        located
    } else {
        let fleet = cx.connect(&target).await?;
        let located = fleet.locate_answering(&target, &MessagePrinter(cx.printer)).await?;
        if located.method == DiscoveryMethod::Broadcast {
            let schemas = AgentSchemas::load(Some(settings))?;
            let (flags, connection) = (&args.query.filters, (&fleet, &schemas));
            unanswered = find_unanswered(flags, &target, &located.nodes, connection, cx).await?;
        }
        located
    };
    warn_of_missing(&located.missing, cx);
    cx.warn_of_clones(&located.cloned);
    let Located { mut nodes, missing, method, complete, .. } = located;
    nodes.retain(|node| !missing.contains(node));
    cx.printer.print_detail(discovery_sentence(nodes.len(), started.elapsed(), method));
    if args.one && nodes.len() > 1 {
        let names = list_first_nodes(&nodes, MAX_NAMED_NODES, ", ");
        cx.printer.print_error(format_args!(
            "--exactly-one: {} nodes match, not one: {names}; add conditions",
            nodes.len()
        ));
        return Ok(CommandExitCode::SomeFailed);
    }
    cx.remember_found(&target, &nodes);
    if let Some(json) = &json {
        let (schema, incomplete, method) = ("muster.nodes.v1", !complete, method.name());
        let (nodes, unanswered) = (&nodes, &unanswered);
        let document = FoundNodesDocument { schema, nodes, incomplete, method, unanswered };
        cx.print_json(&document, json)?;
    } else if let Some(template) = &template {
        for node in &nodes {
            let text = template.render(&BTreeMap::from([("node", node)]));
            let text = text.map_err(OutputFormError::from)?;
            cx.printer.print_value(&text)?;
        }
    } else {
        let names = nodes.iter().map(|node| format!("{node}\n"));
        cx.printer.print_text(names.collect::<String>())?;
    }
    warn_of_unanswered(&unanswered, cx);
    if method == DiscoveryMethod::Broadcast
        && let Some(absent) = cx.describe_absent(&target, &nodes)
    {
        cx.printer.print_warning(absent);
    }
    if !complete {
        cx.warn_of_gap(ResultGap::Discovery);
    }
    if nodes.is_empty() {
        cx.printer
            .print_message(format_args!("no nodes found; looked for {}", target.filter.explain()));
        cx.suggest_names(&target);
        return Ok(CommandExitCode::Local);
    }
    Ok(CommandExitCode::Passed)
}

/// Names the nodes that match and have sent no heartbeat for two intervals. They are not among the results.
fn warn_of_missing(missing: &BTreeSet<Identity>, cx: CommandContext<'_>) {
    if !missing.is_empty() {
        let names = list_first_nodes(missing, MAX_NAMED_NODES, ", ");
        let count = node_count_text(missing.len());
        cx.printer.print_warning(format_args!("{count} missing, left out: {names}"));
    }
}
