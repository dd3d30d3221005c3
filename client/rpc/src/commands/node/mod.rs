//! `rpc node`: all about one node, from the directory, the node itself, the history of the fleet, and the jobs of this user.

pub mod add;
pub mod args;
pub mod document;
mod history_output;
mod node_history;
mod output;
mod sections;

use muster_base::unix_millis_now;
use muster_client::{TargetSelection, read_history};
use muster_wire::identity::{Identity, SubjectName};

use crate::commands::node::add::args::NodeCommand;
use crate::commands::node::args::NodeArgs;
use crate::commands::node::document::NodeDocument;
use crate::commands::node::output::render_sections;
use crate::commands::node::sections::NodeSections;
use crate::flags::json::JsonArgs;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult};

/// Whose record is shown, and where it comes from.
#[derive(Debug, Clone, Copy)]
pub struct NodeQuestion<'a> {
    pub node: &'a Identity,
    /// Whether the node itself is asked, not the directory.
    pub live: bool,
    /// Whether the signature of the node is verified.
    pub verify: bool,
}

pub async fn run(mut args: NodeArgs, cx: CommandContext<'_>) -> CommandResult {
    if let Some(NodeCommand::Add(args)) = args.command {
        return Box::pin(add::run(args, cx)).await;
    }
    // clap requires it.
    let Some(node) = args.node.take() else { return Ok(CommandExitCode::Usage) };
    let node = cx.complete_node_name(node);
    if args.history || args.diff.is_some() {
        let json = args.json.form()?;
        let fleet = cx.connect(&TargetSelection::default()).await?;
        let history = read_history(&fleet, &node).await?;
        return node_history::show_history(&node, &args, &history, json.as_ref(), cx);
    }
    let NodeArgs { live, verify, json, .. } = &args;
    let question = NodeQuestion { node: &node, live: *live, verify: *verify };
    show_node(question, None, json, cx).await
}

/// Shows a node; the requests to it use this collective, or the configured one.
pub async fn show_node(
    question: NodeQuestion<'_>,
    collective: Option<SubjectName>,
    json: &JsonArgs,
    cx: CommandContext<'_>,
) -> CommandResult {
    let json = json.form()?;
    let fleet = cx.connect(&TargetSelection::for_collective(collective)).await?;
    let sections = Box::pin(NodeSections::ask(&fleet, question, cx)).await?;
    let widths = (cx.width(), cx.table_width());
    let render = || render_sections(&sections, question.node, widths, unix_millis_now());
    cx.print_result(json.as_ref(), &NodeDocument::new(&sections, question.node), render)?;
    let is_false = sections.record.verified == Some(false);
    if is_false {
        cx.printer.print_error(format_args!(
            "the directory's answer is not what {} signed; do not trust this directory",
            question.node
        ));
    }
    Ok(CommandExitCode::from_verdict(!is_false))
}
