//! `rpc node --history` and `--diff`: what changed on a node, from its own signed record.

use muster_base::unix_millis_now;
use muster_wire::Millis;
use muster_wire::identity::Identity;
use muster_wire::node_history::{NodeChange, NodeHistory, ValueChange};
use serde::Serialize;

use crate::commands::nodes::args::NodeArgs;
use crate::commands::nodes::history_output::{render_changes, render_difference};
use crate::session::context::{CommandContext, CommandExitCode, CommandResult};
use crate::session::form::JsonForm;

/// The document of `rpc node --history -j`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NodeHistoryDocument<'a> {
    schema: &'static str,
    node: &'a Identity,
    changes: &'a [NodeChange],
}

/// The document of `rpc node --diff -j`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NodeDifferenceDocument<'a> {
    schema: &'static str,
    node: &'a Identity,
    from: Millis,
    until: Millis,
    complete: bool,
    values: Vec<ValueChange>,
}

/// Prints the changes, or what differs between two times. Exits with 1 if there is nothing.
pub fn show_history(
    args: &NodeArgs,
    history: &NodeHistory,
    json: Option<&JsonForm>,
    cx: CommandContext<'_>,
) -> CommandResult {
    let node = &args.node;
    let Some(times) = args.diff.as_deref() else {
        let changes = history.changes();
        let document = NodeHistoryDocument { schema: "muster.node-history.v1", node, changes };
        cx.print_result(json, &document, || render_changes(changes, cx.table_width()))?;
        if changes.is_empty() {
            cx.printer.print_message(format_args!("{node} has noted no change yet"));
        }
        return Ok(CommandExitCode::from_found(!changes.is_empty()));
    };
    let now = unix_millis_now();
    let mut times: Vec<Millis> = times.iter().map(|time| time.millis(now)).collect();
    times.sort_unstable();
    let (from, until) = (times.first().copied().unwrap_or(0), times.last().copied().unwrap_or(now));
    let document = NodeDifferenceDocument {
        schema: "muster.node-difference.v1",
        node,
        from,
        until,
        complete: history.reaches(from),
        values: history.between(from, until),
    };
    cx.print_result(json, &document, || render_difference(&document.values, cx.table_width()))?;
    if !document.complete {
        cx.printer.print_warning(format_args!(
            "{node} keeps its newest changes only, and they begin later: see `rpc node {node} --history`"
        ));
    }
    if document.values.is_empty() {
        cx.printer.print_message(format_args!("nothing differs on {node} between these times"));
    }
    Ok(CommandExitCode::from_found(!document.values.is_empty()))
}
