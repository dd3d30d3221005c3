//! `rpc inventory --collectives` and `--map`: who is in which collective.

use super::super::context::Context;
use super::super::form;
use super::super::request::nobody_found;
use super::error::InventoryFileError;
use crate::ask::{Fleet, Plan, Progress, Question, Recorder, Schemas, Words};
use crate::cli::inventory::Inventory;
use crate::error::Error;
use crate::exit::Exit;
use crate::organisation::files;
use crate::render::collectives::{Collectives, Document};

/// Asks, and shows the table or writes the drawing.
pub async fn run(args: &Inventory, cx: Context<'_>) -> Result<Exit, Error> {
    let target = cx.target(&args.filters)?.with_agent("rpcutil")?;
    let json = form::json(&args.json)?;
    let settings = cx.settings()?;
    let schemas = Schemas::load(Some(&settings))?;
    let words = Words::read("rpcutil", &["collective_info".to_owned()])?;
    let (ddl, action) = schemas.action(&words)?;
    let plan = Plan::new(ddl, action, &[])?;
    let fleet = Fleet::connect(&settings, &target).await?;
    let progress = Progress::new(cx.printer, json.is_none());
    let found = fleet.discover(&target, &progress).await?;
    let question = Question::new(&plan);
    let report = fleet
        .ask(
            question,
            found,
            &mut Recorder::new(None, cx.printer),
            &progress,
            |_| Ok(()),
        )
        .await?;
    let collectives = Collectives::of(&report);
    if let Some(json) = &json {
        cx.json(&Document::new(&collectives, &report), json)?;
    } else if report.stats.discovered == 0 {
        nobody_found(&target, cx);
    } else {
        match &args.map {
            None => cx.printer.text(collectives.table())?,
            Some(path) if path.as_os_str() == "-" => cx.printer.text(collectives.drawing())?,
            Some(path) => std::fs::write(path, collectives.drawing())
                .map_err(files::failed("write", path))
                .map_err(InventoryFileError::from)?,
        }
    }
    let silent = report.stats.missing.len();
    if silent > 0 {
        cx.printer.warn(format_args!(
            "{silent} of {} nodes did not answer",
            report.stats.discovered
        ));
    }
    cx.warn_of_gaps(&report);
    Ok(report.stats.exit())
}
