//! `rpc facts`: how the values of a fact are spread over the fleet.

use super::context::Context;
use super::form;
use super::request::nobody_found;
use crate::ask::{Fleet, Plan, Progress, Question, Recorder, Schemas, Words};
use crate::cli::facts::Facts;
use crate::error::Error;
use crate::exit::Exit;
use crate::printer::Talk;
use crate::render::facts::{Document, groups, table, text};

/// Runs the command.
pub async fn run(args: Facts, cx: Context<'_>) -> Result<Exit, Error> {
    let target = cx.target(&args.filters)?.with_agent("rpcutil")?;
    let json = form::json(&args.json)?;
    let settings = cx.settings()?;
    let schemas = Schemas::load(Some(&settings))?;
    let words = Words::read(
        "rpcutil",
        &["get_fact".to_owned(), format!("fact={}", args.fact)],
    )?;
    let (ddl, action) = schemas.action(&words)?;
    let plan = Plan::new(ddl, action, &words.inputs)?;
    let fleet = Fleet::connect(&settings, &target).await?;
    let progress = Progress::new(cx.printer, json.is_none());
    let found = fleet.discover(&target, &progress).await?;
    let report = fleet
        .ask(
            Question::new(&plan),
            found,
            &mut Recorder::new(None, cx.printer),
            &progress,
            |_| Ok(()),
        )
        .await?;
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
