//! `rpc find`: the names of the nodes that match, one a line. A broadcast always asks, even for nodes that are named; any other
//! method is taken at its word, and the broker is not needed.

use std::collections::BTreeSet;
use std::time::Instant;

use muster_wire::identity::Identity;

use super::context::Context;
use super::form::{self, FormError};
use crate::ask::{Fleet, Progress, Target, locate};
use crate::cli::find::Find;
use crate::error::Error;
use crate::exit::Exit;
use crate::render::nodes::{Document, NAMES, Values, sentence};
use crate::report::Gap;
use crate::settings::Settings;

/// Runs the command.
pub async fn run(args: Find, cx: Context<'_>) -> Result<Exit, Error> {
    let target = cx.target(&args.filters)?;
    let json = form::json(&args.json)?;
    let template = args.template.as_deref();
    let template = template
        .map(|text| form::template(text, &NAMES))
        .transpose()?;
    let settings = cx.settings()?;
    let source = target.source(Some(&settings))?;
    let begun = Instant::now();
    let wanted = target.wanted(&source, Some(&settings.collective));
    let (nodes, complete) = match locate(&source, &wanted, cx.printer).await? {
        Some(nodes) => (nodes, true),
        None => ask(&target, &settings, cx).await?,
    };
    cx.remember(&nodes);
    let method = source.method();
    cx.printer
        .detail(sentence(nodes.len(), begun.elapsed(), method));
    if let Some(json) = &json {
        cx.json(&Document::new(&nodes, !complete, method), json)?;
    } else if let Some(template) = &template {
        for node in &nodes {
            let text = template.render(&Values { node });
            let text = text.map_err(|source| FormError::Template { source })?;
            cx.printer.text(text)?;
        }
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

/// Who answers, and whether nothing was lost.
async fn ask(
    target: &Target,
    settings: &Settings,
    cx: Context<'_>,
) -> Result<(BTreeSet<Identity>, bool), Error> {
    let fleet = Fleet::connect(settings, target).await?;
    let mut nodes = BTreeSet::new();
    let complete = fleet
        .ping(target, &Progress::new(cx.printer, false), |answer| {
            nodes.insert(answer.reply.sender.clone());
        })
        .await?;
    Ok((nodes, complete))
}
