//! `rpc nodes` and `rpc check-registration`: what the directory knows.

pub mod args;
pub mod node_order;
pub mod output;

use std::time::Duration;

use muster_calls::DirectoryError;
use muster_client::documents::{RegisteredFacetsDocument, RegisteredNodesDocument};
use muster_client::{
    FleetConnection, FleetRequestError, NodeListOptions, RegisteredNodeList, TargetSelection,
    count_registered, forget_registered, list_registered, watch_registered,
};
use muster_contract::directory::DirectoryNodeRow;
use muster_display::node_count_text;
use muster_wire::identity::Identity;
use tokio::time::sleep;

use crate::commands::nodes::args::{CheckRegistrationArgs, NodesArgs};
use crate::commands::nodes::output::{
    ShownNodes, render_facets, render_node_names, render_node_table, render_registration_check,
};
use crate::flags::list_form::NodeListForm;
use crate::report::list_form::print_in_form;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult, Error};

/// Pause before changes are requested again.
const WATCH_RETRY_INTERVAL: Duration = Duration::from_secs(1);

pub async fn run_list(mut args: NodesArgs, cx: CommandContext<'_>) -> CommandResult {
    args.named.add_to(&mut args.filters);
    let target = cx.read_target(&args.filters)?;
    let json = args.json.form()?;
    let fleet = cx.connect(&target).await?;
    if !args.forget.is_empty() {
        return forget_nodes(&fleet, &args.forget, cx).await;
    }
    let mut fields = args.fields.clone();
    let sorted_by = args.sort.iter().map(|order| order.path.clone());
    fields.extend(sorted_by.filter(|path| !args.fields.contains(path)));
    let options =
        NodeListOptions { fields: &fields, with_stale: args.stale, with_documents: false };
    if let Some(fact) = &args.facets {
        let output = count_registered(&fleet, &target, fact, args.stale).await?;
        let has_values = output.distinct > 0;
        let document = RegisteredFacetsDocument::new(fact, &output);
        let render = || render_facets(&output, cx.table_width());
        cx.print_result(json.as_ref(), &document, render)?;
        match output.total {
            0 => cx.printer.print_message(format_args!(
                "no nodes found; looked for {}",
                target.filter.explain()
            )),
            total if !has_values => cx.report_no_values(fact, total),
            _ => {}
        }
        return Ok(CommandExitCode::from_found(has_values));
    }
    if args.watch {
        return watch_nodes(&fleet, &target, &args.fields, cx).await;
    }
    let mut list = list_registered(&fleet, &target, options).await?;
    if args.missing {
        list.nodes.retain(|node| node.state == "missing");
    }
    if let Some(order) = &args.sort {
        order.sort(&mut list.nodes);
    }
    let has_nodes = !list.nodes.is_empty();
    warn_of_gaps(&list, cx);
    warn_of_unknown_fields(&list, &fields, cx);
    let document = RegisteredNodesDocument::new(&list);
    if json.is_some() {
        cx.print_result(json.as_ref(), &document, String::new)?;
    } else {
        print_in_form(args.output.as_ref(), &document, cx, |form| match form {
            NodeListForm::Name => render_node_names(&list.nodes),
            form => {
                let is_wide = matches!(form, NodeListForm::Wide);
                render_node_table(&list.nodes, &args.fields, is_wide, cx.table_width())
            }
        })?;
    }
    if !has_nodes {
        cx.printer
            .print_message(format_args!("no nodes found; looked for {}", target.filter.explain()));
        cx.suggest_names(&target);
    }
    Ok(CommandExitCode::from_found(has_nodes))
}

/// Makes the directory forget nodes, one after the other, and reports each.
async fn forget_nodes(
    fleet: &FleetConnection,
    nodes: &[Identity],
    cx: CommandContext<'_>,
) -> CommandResult {
    let mut has_failed = false;
    for node in nodes {
        match forget_registered(fleet, node).await {
            Ok(_) => cx.printer.print_line(format_args!("forgot {node}"))?,
            // The reason has the node's name.
            Err(FleetRequestError::Directory(
                DirectoryError::Refused(reason) | DirectoryError::Invalid(reason),
            )) => {
                has_failed = true;
                cx.printer.print_error(reason.block());
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(CommandExitCode::from_verdict(!has_failed))
}

pub async fn run_check(args: CheckRegistrationArgs, cx: CommandContext<'_>) -> CommandResult {
    let target = cx.read_target(&args.filters)?;
    let options = NodeListOptions { with_stale: true, ..NodeListOptions::default() };
    let list = async {
        let fleet = cx.connect(&target).await?;
        Ok::<_, Error>(list_registered(&fleet, &target, options).await?)
    };
    match list.await {
        Ok(list) if !list.freshness.ready => {
            cx.printer.print_line(format_args!("UNKNOWN: {}", DirectoryError::NotReady))?;
            Ok(CommandExitCode::NoneAnswered)
        }
        Ok(list) if list.nodes.is_empty() => {
            let looked_for = target.filter.explain();
            cx.printer.print_text(format!(
                "UNKNOWN: the directory knows no such node; looked for {looked_for}\n"
            ))?;
            Ok(CommandExitCode::NoneAnswered)
        }
        Ok(list) => {
            let old = list.nodes.iter().filter(|node| is_older_than(node, args.interval)).count();
            let total = list.nodes.len();
            cx.printer.print_text(render_registration_check(old, total, args.interval))?;
            Ok(CommandExitCode::from_verdict(old == 0))
        }
        Err(error) => {
            cx.printer.print_line(format_args!("UNKNOWN: {error}"))?;
            Ok(CommandExitCode::NoneAnswered)
        }
    }
}

/// Whether a node was not seen for this long. One that was not seen since the directory's start is old only once it is missing.
fn is_older_than(node: &DirectoryNodeRow, seconds: u64) -> bool {
    node.seen.map_or(node.state == "missing", |seen| seen > seconds)
}

/// Prints the nodes that match, and then each change.
async fn watch_nodes(
    fleet: &FleetConnection,
    target: &TargetSelection,
    fields: &[String],
    cx: CommandContext<'_>,
) -> CommandResult {
    let mut watch = watch_registered(fleet, target, fields)?;
    let mut shown = ShownNodes::default();
    let (mut is_started, mut is_away) = (false, false);
    loop {
        match watch.next().await {
            Ok(update) => {
                (is_started, is_away) = (true, false);
                cx.printer.print_text(shown.apply(update).into_text())?;
            }
            Err(error) if is_started && error.is_directory_away() => {
                if !is_away {
                    cx.printer.print_warning(format_args!("{error}; trying again"));
                }
                is_away = true;
                sleep(WATCH_RETRY_INTERVAL).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Names the fields that no listed node has: probably typing errors.
fn warn_of_unknown_fields(list: &RegisteredNodeList, fields: &[String], cx: CommandContext<'_>) {
    let is_unknown =
        |field: &&String| list.nodes.iter().all(|node| !node.fields.contains_key(*field));
    for field in fields.iter().filter(is_unknown).filter(|_| !list.nodes.is_empty()) {
        cx.printer.print_warning(format_args!("no listed node has `{field}`"));
    }
}

fn warn_of_gaps(list: &RegisteredNodeList, cx: CommandContext<'_>) {
    if !list.freshness.current {
        cx.printer.print_warning(
            "the directory is not up to date: it has just started, or has lost its connection",
        );
    }
    if list.stale > 0 {
        let count = node_count_text(list.stale);
        cx.printer.print_hint(format_args!(
            "{count} not seen for an hour are left out; --stale shows them"
        ));
    }
}
