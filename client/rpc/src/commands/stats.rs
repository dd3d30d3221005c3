//! `rpc stats`: what daemons have taken and refused since they started.

use super::context::Context;
use super::form;
use super::request::nobody_found;
use crate::ask::{Fleet, Plan, Progress, Question, Recorder, Words};
use crate::cli::stats::Stats;
use crate::error::Error;
use crate::exit::Exit;
use crate::render::stats::{Document, counts, table};

/// Runs the command.
pub async fn run(args: Stats, cx: Context<'_>) -> Result<Exit, Error> {
    let target = cx.target(&args.filters)?.with_agent("rpcutil")?;
    let json = form::json(&args.json)?;
    let settings = cx.settings()?;
    let schemas = cx.schemas(Some(&settings))?;
    let words = Words::read("rpcutil", &["daemon_stats".to_owned()])?;
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
    let counts = counts(&report);
    if let Some(json) = &json {
        cx.json(&Document::new(&counts, &report), json)?;
    } else if report.stats.discovered == 0 {
        nobody_found(&target, cx);
    } else {
        let width = cx.printer.screen().width;
        cx.printer.text(table(&counts, &report, width))?;
    }
    cx.warn_of_gaps(&report);
    Ok(report.stats.exit())
}
