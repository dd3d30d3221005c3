//! Finds the nodes that could not evaluate an expression, and why. A node for which an expression is unknown does not reply to it, so it would be
//! missing without a message.
//!
//! A node that matches neither the expression nor its negation could not evaluate it. The reasons are the errors of its data sources.

use std::collections::{BTreeMap, BTreeSet};

use muster_client::{AgentSchemas, FleetConnection, Located, TargetSelection, list_answering};
use muster_contract::rpcutil::{RpcutilGetData, RpcutilGetDataInput};
use muster_display::{list_first_nodes, node_count_text};
use muster_filter::SelectExpression;
use muster_wire::identity::Identity;

use crate::flags::filters::FilterArgs;
use crate::report::progress::ProgressReporter;
use crate::request::inquiry::ask_nodes;
use crate::session::context::{CommandContext, Result};

/// Most names of nodes in a message.
const MAX_SHOWN_NAMES: usize = 10;

/// The nodes that could not evaluate the expression, with the reasons.
pub type UnansweredNodes = BTreeMap<Identity, Vec<String>>;

/// Finds the nodes that could not evaluate an expression with data sources.
pub async fn find_unanswered(
    flags: &FilterArgs,
    target: &TargetSelection,
    found: &BTreeSet<Identity>,
    (fleet, schemas): (&FleetConnection, &AgentSchemas),
    cx: CommandContext<'_>,
) -> Result<UnansweredNodes> {
    let lookups = target.filter.select().map(SelectExpression::data_lookups).unwrap_or_default();
    if lookups.is_empty() {
        return Ok(UnansweredNodes::new());
    }
    let (mut all, mut negated) = (flags.clone(), flags.clone());
    all.conditions.select.clear();
    let expressions = flags.conditions.select.iter().map(|text| format!("({text})"));
    negated.conditions.select =
        vec![format!("not ({})", expressions.collect::<Vec<_>>().join(" and "))];
    // The negation of a very long expression exceeds the limits; then the nodes cannot be told apart.
    let (Ok(all), Ok(negated)) = (cx.read_target(&all), cx.read_target(&negated)) else {
        return Ok(UnansweredNodes::new());
    };
    let (all, negated) =
        tokio::join!(list_answering(fleet, &all, &()), list_answering(fleet, &negated, &()));
    let (mut silent, others) = (all?.nodes, negated?.nodes);
    silent.retain(|node| !found.contains(node) && !others.contains(node));
    let mut unanswered: UnansweredNodes =
        silent.iter().map(|node| (node.clone(), Vec::new())).collect();
    if silent.is_empty() {
        return Ok(unanswered);
    }
    for lookup in lookups {
        let input =
            RpcutilGetDataInput { source: lookup.source.clone(), query: lookup.query.clone() };
        let Ok(plan) = schemas.plan::<RpcutilGetData>(&input) else {
            continue;
        };
        let nodes = Located::from_names(silent.clone());
        let progress = ProgressReporter::new(cx.printer, false);
        let report = ask_nodes(fleet, &plan, nodes, &progress).await?;
        for reply in report.failures() {
            let reasons = unanswered.entry(reply.node.clone()).or_default();
            reasons.push(format!("{lookup}: {}", reply.message.raw()));
        }
    }
    Ok(unanswered)
}

/// Prints which nodes could not evaluate the expression, and the reasons.
pub fn warn_of_unanswered(unanswered: &UnansweredNodes, cx: CommandContext<'_>) {
    if unanswered.is_empty() {
        return;
    }
    let nodes: BTreeSet<Identity> = unanswered.keys().cloned().collect();
    cx.printer.print_warning(format_args!(
        "{} could not evaluate the expression, and may match or not: {}",
        node_count_text(nodes.len()),
        list_first_nodes(&nodes, MAX_SHOWN_NAMES, ", ")
    ));
    let mut nodes_by_reason: BTreeMap<&str, BTreeSet<Identity>> = BTreeMap::new();
    for (node, reasons) in unanswered {
        for reason in reasons {
            nodes_by_reason.entry(reason).or_default().insert(node.clone());
        }
    }
    for (reason, nodes) in nodes_by_reason {
        let names = list_first_nodes(&nodes, MAX_SHOWN_NAMES, ", ");
        cx.printer.print_warning(format_args!("{reason}: {names}"));
    }
}
