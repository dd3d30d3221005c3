//! `rpc node --history` and `--diff`: what changed on a node, from its own signed record.

use muster_base::unix_millis_now;
use muster_client::documents::{NodeDifferenceDocument, NodeHistoryDocument};
use muster_wire::Millis;
use muster_wire::identity::Identity;
use muster_wire::node_history::NodeHistory;

use crate::commands::node::args::NodeArgs;
use crate::commands::node::history_output::{render_changes, render_difference};
use crate::session::context::{CommandContext, CommandExitCode, CommandResult};
use crate::session::form::JsonForm;

/// Prints the changes, or what differs between two times. Exits with 1 if there is nothing.
pub fn show_history(
    node: &Identity,
    args: &NodeArgs,
    history: &NodeHistory,
    json: Option<&JsonForm>,
    cx: CommandContext<'_>,
) -> CommandResult {
    let Some(times) = args.diff.as_deref() else {
        let changes = history.changes();
        let document = NodeHistoryDocument::new(node, history);
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
    let document = NodeDifferenceDocument::new(node, history, from, until);
    let values = document.values();
    cx.print_result(json, &document, || render_difference(values, cx.table_width()))?;
    if !document.is_complete() {
        cx.printer.print_warning(format_args!(
            "{node} keeps its newest changes only, and they begin later: see `rpc node {node} --history`"
        ));
    }
    if values.is_empty() {
        cx.printer.print_message(format_args!("nothing differs on {node} between these times"));
    }
    Ok(CommandExitCode::from_found(!values.is_empty()))
}
