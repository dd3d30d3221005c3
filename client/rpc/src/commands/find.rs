//! `rpc find`: the names of the nodes that match, one a line. Always asks, even for nodes that are named.

use std::collections::BTreeSet;
use std::time::Instant;

use super::context::Context;
use super::form;
use crate::ask::{Fleet, Target};
use crate::cli::find::Find;
use crate::error::Error;
use crate::exit::Exit;
use crate::render::nodes::{Document, sentence};
use crate::report::Gap;

/// Runs the command.
pub async fn run(args: Find, cx: Context<'_>) -> Result<Exit, Error> {
    let target = Target::read(&args.filters)?;
    let json = form::json(&args.json)?;
    let settings = cx.settings()?;
    let fleet = Fleet::connect(&settings, &target).await?;
    let begun = Instant::now();
    let mut nodes = BTreeSet::new();
    let complete = fleet
        .ping(&target.filter, |answer| {
            nodes.insert(answer.reply.sender.clone());
        })
        .await?;
    cx.printer.detail(sentence(nodes.len(), begun.elapsed()));
    if let Some(json) = &json {
        cx.json(&Document::new(&nodes, !complete), json)?;
    } else {
        let mut names = String::new();
        for node in &nodes {
            names.push_str(node.as_str());
            names.push('\n');
        }
        cx.printer.text(names)?;
    }
    if !complete {
        cx.printer
            .warn(format_args!("incomplete: {}", Gap::Discovery.sentence()));
    }
    if nodes.is_empty() {
        cx.printer.say(format_args!(
            "nobody answers; looked for {}",
            target.filter.explain()
        ));
        return Ok(Exit::Local);
    }
    Ok(Exit::Passed)
}
