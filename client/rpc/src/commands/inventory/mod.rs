//! `rpc inventory`: reports about many nodes. With the name of a node, it is another name of `rpc node --live`.

mod ansible;
pub mod args;
mod collectives;
pub mod collectives_output;
mod export;
mod report;

use crate::commands::node::{NodeQuestion, show_node};
use crate::session::context::{CommandContext, CommandResult};

pub async fn run(args: args::InventoryArgs, cx: CommandContext<'_>) -> CommandResult {
    if let Some(path) = &args.validate {
        return export::validate_file(path, cx);
    }
    if args.ansible.ansible {
        return ansible::run(&args.ansible, &args.query.filters, cx).await;
    }
    if let Some(path) = &args.export {
        return export::run(path, &args, cx).await;
    }
    if let Some(text) = &args.template {
        return report::run(text, &args, cx).await;
    }
    match &args.node {
        Some(node) => {
            let node = &cx.complete_node_name(node.clone());
            let question = NodeQuestion { node, live: true, verify: false };
            show_node(question, args.query.filters.target.clone(), &args.query.json, cx).await
        }
        None => collectives::run(&args, cx).await,
    }
}
