//! `rpc inventory --collectives` and `--map`: who is in which collective.

use super::super::context::Context;
use super::super::request::nobody_found;
use super::super::{form, inquiry};
use super::error::InventoryFileError;
use crate::ask::Schemas;
use crate::cli::inventory::Inventory;
use crate::error::Error;
use crate::exit::Exit;
use crate::files;
use crate::render::collectives::{Collectives, Document};

/// Asks, and shows the table or writes the drawing.
pub async fn run(args: &Inventory, cx: Context<'_>) -> Result<Exit, Error> {
    let target = cx.target(&args.filters)?.with_agent(inquiry::AGENT)?;
    let json = form::json(&args.json)?;
    let settings = cx.settings()?;
    let schemas = Schemas::load(Some(&settings))?;
    let plan = inquiry::plan(&schemas, "collective_info", &[])?;
    let report = inquiry::ask_all(&plan, &target, &settings, json.is_none(), cx).await?;
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
