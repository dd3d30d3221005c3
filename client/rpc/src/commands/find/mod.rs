//! `rpc find`: prints the names of the matching nodes, one per line. The broadcast method always sends a ping, even for named nodes. The
//! other methods print their result without a ping and do not need the broker.

pub mod args;
pub mod output;
mod unanswered;
pub mod verify;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use muster_calls::{DiscoveryMethod, RegisteredNodes};
use muster_client::{
    AgentSchemas, FleetConnection, PingRequest, RequestObserver, ResultGap, TargetSelection,
    locate_nodes,
};
use muster_display::{list_first_nodes, node_count_text};
use muster_wire::identity::Identity;
use unanswered::{UnansweredNodes, find_unanswered, warn_of_unanswered};

use crate::commands::find::args::FindArgs;
use crate::commands::find::output::{FoundNodesDocument, TEMPLATE_NAMES, discovery_sentence};
use crate::report::progress::MessagePrinter;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult, Result};
use crate::session::form;
use crate::session::form::OutputFormError;

/// Most names of nodes in a message.
const MAX_NAMED_NODES: usize = 10;

pub async fn run(mut args: FindArgs, cx: CommandContext<'_>) -> CommandResult {
    args.named.add_to(&mut args.query.filters);
    let target = cx.read_target(&args.query.filters)?;
    let json = form::parse_json_form(&args.query.json)?;
    let template = args.template.as_deref();
    let template = template.map(|text| form::parse_template(text, &TEMPLATE_NAMES)).transpose()?;
    if let Some(template) = &template {
        template.check_fields("node", &[]).map_err(OutputFormError::from)?;
    }
    if args.verify {
        return verify::run(&target, json.as_ref(), cx).await;
    }
    let settings = cx.load_settings()?;
    let source = target.discovery_source(Some(&settings))?;
    let started = Instant::now();
    let query = target.discovery_query(&source, Some(&settings.collective));
    let mut unanswered = UnansweredNodes::new();
    let messages = MessagePrinter(cx.printer);
    let located = locate_nodes(&source, &query, &messages).await?;
    let mut method = source.method();
    let (nodes, complete) = if let Some(nodes) = located {
        (nodes, true)
    } else {
        let fleet = FleetConnection::connect(&settings, &target).await?;
        if let Some(mut found) = fleet.find_registered(&target, &messages).await? {
            method = DiscoveryMethod::Directory;
            warn_of_missing(&found, cx);
            cx.warn_of_clones(&found.cloned);
            found.nodes.retain(|node| !found.missing.contains(node));
            (found.nodes, true)
        } else {
            method = DiscoveryMethod::Broadcast;
            let (nodes, complete) = ping_nodes(&fleet, &target, &messages).await?;
            let schemas = AgentSchemas::load(Some(&settings))?;
            let (flags, connection) = (&args.query.filters, (&fleet, &schemas));
            unanswered = find_unanswered(flags, &target, &nodes, connection, cx).await?;
            (nodes, complete)
        }
    };
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
fn warn_of_missing(found: &RegisteredNodes, cx: CommandContext<'_>) {
    if !found.missing.is_empty() {
        let names = list_first_nodes(&found.missing, MAX_NAMED_NODES, ", ");
        let count = node_count_text(found.missing.len());
        cx.printer.print_warning(format_args!("{count} missing, left out: {names}"));
    }
}

/// Returns the nodes that replied, and whether the result is complete.
async fn ping_nodes(
    fleet: &FleetConnection,
    target: &TargetSelection,
    observer: &dyn RequestObserver,
) -> Result<(BTreeSet<Identity>, bool)> {
    let mut nodes = BTreeSet::new();
    let ping = PingRequest { target, expect: None, traceparent: None };
    let stats = fleet.ping_by_broadcast(ping, observer, |received| {
        nodes.insert(received.reply.sender.clone());
    });
    let complete = stats.await?.incomplete.is_none();
    Ok((nodes, complete))
}
