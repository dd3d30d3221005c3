//! `rpc facts`: how the values of a fact are spread over the fleet.

use super::context::Context;
use super::request::nobody_found;
use super::{form, inquiry};
use crate::ask::Schemas;
use crate::cli::facts::Facts;
use crate::error::Error;
use crate::exit::Exit;
use crate::printer::Talk;
use crate::render::facts::{Document, groups, table, text};

/// Runs the command.
pub async fn run(args: Facts, cx: Context<'_>) -> Result<Exit, Error> {
    let target = cx.target(&args.filters)?.with_agent(inquiry::AGENT)?;
    let json = form::json(&args.json)?;
    let settings = cx.settings()?;
    let schemas = Schemas::load(Some(&settings))?;
    let plan = inquiry::plan(&schemas, "get_fact", &[("fact", &args.fact)])?;
    let report = inquiry::ask_all(&plan, &target, &settings, json.is_none(), cx).await?;
    let mut groups = groups(&report);
    if args.reverse {
        groups.reverse();
    }
    let nodes = args.show_nodes || cx.printer.talk() == Talk::Verbose;
    let screen = cx.printer.screen();
    if let Some(json) = &json {
        cx.json(&Document::new(&args.fact, &groups, &report), json)?;
    } else if report.stats.discovered == 0 {
        nobody_found(&target, cx);
    } else if args.table {
        cx.printer.text(table(&groups, nodes, screen))?;
    } else {
        let text = text(&args.fact, &groups, &report, nodes, screen);
        cx.printer.text(text)?;
    }
    cx.warn_of_gaps(&report);
    Ok(report.stats.exit())
}
