//! `rpc inventory --collectives` and `--map`: shows which nodes are in which collective.

use muster_request::AgentSchemas;
use muster_secret::files;

use super::super::context::CommandContext;
use super::super::request::report_no_nodes;
use super::super::{form, inquiry};
use super::error::InventoryFileError;
use crate::cli::inventory::InventoryArgs;
use crate::error::Error;
use crate::exit::CommandExitCode;
use crate::render::collectives::{CollectiveMembers, CollectivesDocument};

/// Collects the data, and prints the table or writes the graph.
pub async fn run(args: &InventoryArgs, cx: CommandContext<'_>) -> Result<CommandExitCode, Error> {
    let target = cx.read_target(&args.filters)?.with_agent(inquiry::RPCUTIL_AGENT)?;
    let json = form::parse_json_form(&args.json)?;
    let settings = cx.load_settings()?;
    let schemas = AgentSchemas::load(Some(&settings))?;
    let plan = inquiry::plan_rpcutil(&schemas, "collective_info", &[])?;
    let report = inquiry::discover_and_ask(&plan, &target, &settings, json.is_none(), cx).await?;
    let collectives = CollectiveMembers::from_report(&report);
    if let Some(json) = &json {
        cx.print_json(&CollectivesDocument::new(&collectives, &report), json)?;
    } else if report.stats.discovered == 0 {
        report_no_nodes(&target, cx);
    } else {
        match &args.map {
            None => cx.printer.print_text(collectives.render_table())?,
            Some(path) if path.as_os_str() == "-" => {
                cx.printer.print_text(collectives.render_dot())?;
            }
            Some(path) => std::fs::write(path, collectives.render_dot())
                .map_err(files::file_error("write", path))
                .map_err(InventoryFileError::from)?,
        }
    }
    let silent = report.stats.missing.len();
    if silent > 0 {
        cx.printer.print_warning(format_args!(
            "{silent} of {} nodes did not reply",
            report.stats.discovered
        ));
    }
    cx.warn_of_gaps(&report);
    Ok(report.stats.outcome().into())
}
