//! `rpc facts`: counts the values of a fact across the fleet.

use muster_request::AgentSchemas;

use super::context::CommandContext;
use super::request::report_no_nodes;
use super::{form, inquiry};
use crate::cli::facts::FactsArgs;
use crate::error::Error;
use crate::exit::CommandExitCode;
use crate::printer::VerbosityLevel;
use crate::render::facts::{FactsDocument, group_fact_values, render_fact_bars, render_fact_table};

/// Runs the command.
pub async fn run(args: FactsArgs, cx: CommandContext<'_>) -> Result<CommandExitCode, Error> {
    let target = cx.read_target(&args.filters)?.with_agent(inquiry::RPCUTIL_AGENT)?;
    let json = form::parse_json_form(&args.json)?;
    let settings = cx.load_settings()?;
    let schemas = AgentSchemas::load(Some(&settings))?;
    let plan = inquiry::plan_rpcutil(&schemas, "get_fact", &[("fact", &args.fact)])?;
    let report = inquiry::discover_and_ask(&plan, &target, &settings, json.is_none(), cx).await?;
    let mut groups = group_fact_values(&report);
    if args.reverse {
        groups.reverse();
    }
    let show_nodes = args.show_nodes || cx.printer.verbosity_level() == VerbosityLevel::Verbose;
    let screen = cx.printer.screen();
    if let Some(json) = &json {
        cx.print_json(&FactsDocument::new(&args.fact, &groups, &report), json)?;
    } else if report.stats.discovered == 0 {
        report_no_nodes(&target, cx);
    } else if args.table {
        cx.printer.print_text(render_fact_table(&groups, show_nodes, screen))?;
    } else {
        let text = render_fact_bars(&args.fact, &groups, &report, show_nodes, screen);
        cx.printer.print_text(text)?;
    }
    cx.warn_of_gaps(&report);
    Ok(report.stats.outcome().into())
}
