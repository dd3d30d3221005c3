//! `rpc stats`: what daemons have taken and refused since they started.

use super::context::Context;
use super::request::nobody_found;
use super::{form, inquiry};
use crate::cli::stats::Stats;
use crate::error::Error;
use crate::exit::Exit;
use crate::render::stats::{Document, counts, table};

/// Runs the command.
pub async fn run(args: Stats, cx: Context<'_>) -> Result<Exit, Error> {
    let target = cx.target(&args.filters)?.with_agent(inquiry::AGENT)?;
    let json = form::json(&args.json)?;
    let settings = cx.settings()?;
    let schemas = cx.schemas(Some(&settings))?;
    let plan = inquiry::plan(&schemas, "daemon_stats", &[])?;
    let report = inquiry::ask_all(&plan, &target, &settings, json.is_none(), cx).await?;
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
