//! `rpc find --verify`: compares the directory with the nodes' own answers, and prints the differences.

use std::collections::BTreeSet;

use muster_client::{DiscoveryDifferences, TargetSelection, ask_both};
use muster_display::node_count_text;
use muster_wire::identity::Identity;
use serde::Serialize;

use crate::report::progress::MessagePrinter;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult};
use crate::session::form::JsonForm;

/// The document of `rpc find --verify -j`.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct VerifiedNodesDocument {
    schema: &'static str,
    /// Whether there are no differences.
    equal: bool,
    /// Number of nodes that match, according to the nodes.
    nodes: usize,
    #[schemars(with = "BTreeSet<String>")]
    silent: BTreeSet<Identity>,
    #[schemars(with = "BTreeSet<String>")]
    unregistered: BTreeSet<Identity>,
    #[schemars(with = "BTreeSet<String>")]
    not_missing: BTreeSet<Identity>,
    #[schemars(with = "BTreeSet<String>")]
    directory_only: BTreeSet<Identity>,
    #[schemars(with = "BTreeSet<String>")]
    nodes_only: BTreeSet<Identity>,
}

pub async fn run(
    target: &TargetSelection,
    json: Option<&JsonForm>,
    cx: CommandContext<'_>,
) -> CommandResult {
    let fleet = cx.connect(target).await?;
    let answers = ask_both(&fleet, target, &MessagePrinter(cx.printer)).await?;
    let differences = answers.differences();
    let is_equal = differences.is_empty();
    let nodes = answers.matching.len();
    let text = render_differences(&differences);
    let DiscoveryDifferences { silent, unregistered, not_missing, directory_only, nodes_only } =
        differences;
    let document = VerifiedNodesDocument {
        schema: "muster.verified-nodes.v1",
        equal: is_equal,
        nodes,
        silent,
        unregistered,
        not_missing,
        directory_only,
        nodes_only,
    };
    cx.print_result(json, &document, || text.clone())?;
    if is_equal {
        let count = node_count_text(nodes);
        cx.printer.print_message(format_args!("the directory and the nodes agree: {count}"));
    }
    Ok(CommandExitCode::from_verdict(is_equal))
}

/// A line for each node.
fn render_differences(found: &DiscoveryDifferences) -> String {
    let kinds = [
        (&found.silent, "is registered and does not answer"),
        (&found.unregistered, "answers and is not registered"),
        (&found.not_missing, "answers and is registered as missing"),
        (&found.directory_only, "matches according to the directory only"),
        (&found.nodes_only, "matches according to the node only"),
    ];
    let lines = kinds
        .into_iter()
        .flat_map(|(nodes, text)| nodes.iter().map(move |node| format!("{node}  {text}\n")));
    lines.collect()
}
