//! `rpc puppet status`, `count` and `summary`: questions that change nothing.

use serde::Serialize;

use super::AGENT;
use crate::cli::puppet::Ask;
use crate::commands::context::Context;
use crate::commands::form::{self, JsonForm};
use crate::commands::inquiry;
use crate::commands::request::nobody_found;
use crate::error::Error;
use crate::exit::Exit;
use crate::render::puppet::count::{self, Totals};
use crate::render::puppet::status::{self, states, table};
use crate::render::puppet::summary::{self, Summary};
use crate::report::Report;

/// What was answered, and in which form it is wanted.
struct Answered {
    report: Report,
    json: Option<JsonForm>,
}

/// What Puppet does on each node.
pub async fn status(args: Ask, cx: Context<'_>) -> Result<Exit, Error> {
    let answered = ask(args, "status", cx).await?;
    let (report, width) = (&answered.report, cx.printer.screen().width);
    let states = states(report);
    answered.show(&status::Document::new(&states, report), cx, || {
        table(&states, report, width)
    })
}

/// How many nodes there are where it does what.
pub async fn count(args: Ask, cx: Context<'_>) -> Result<Exit, Error> {
    let answered = ask(args, "status", cx).await?;
    let report = &answered.report;
    let totals = Totals::of(report);
    answered.show(&count::Document::new(&totals, report), cx, || {
        totals.text(report)
    })
}

/// How the figures of last runs are spread.
pub async fn summary(args: Ask, cx: Context<'_>) -> Result<Exit, Error> {
    let answered = ask(args, "last_run_summary", cx).await?;
    let report = &answered.report;
    let summary = Summary::of(report);
    answered.show(&summary::Document::new(&summary, report), cx, || {
        summary.text(report, cx.environment.utf8)
    })
}

async fn ask(args: Ask, action: &str, cx: Context<'_>) -> Result<Answered, Error> {
    let target = cx.target(&args.filters)?.with_agent(AGENT)?;
    let json = form::json(&args.json)?;
    let settings = cx.settings()?;
    let schemas = cx.schemas(Some(&settings))?;
    let plan = inquiry::plan_of(&schemas, (AGENT, action), Vec::new())?;
    let report = inquiry::ask_all(&plan, &target, &settings, json.is_none(), cx).await?;
    if json.is_none() && report.stats.discovered == 0 {
        nobody_found(&target, cx);
    }
    Ok(Answered { report, json })
}

impl Answered {
    fn show(
        &self,
        document: &impl Serialize,
        cx: Context<'_>,
        text: impl FnOnce() -> String,
    ) -> Result<Exit, Error> {
        if let Some(json) = &self.json {
            cx.json(document, json)?;
        } else if self.report.stats.discovered > 0 {
            cx.printer.text(text())?;
        }
        cx.warn_of_gaps(&self.report);
        Ok(self.report.stats.exit())
    }
}
