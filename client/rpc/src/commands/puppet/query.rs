//! `rpc puppet status`, `count` and `summary`: read-only queries.

use muster_request::RequestReport;
use serde::Serialize;

use super::PUPPET_AGENT;
use crate::cli::puppet::PuppetQueryArgs;
use crate::commands::context::CommandContext;
use crate::commands::form::{self, JsonForm};
use crate::commands::inquiry;
use crate::commands::request::report_no_nodes;
use crate::error::Error;
use crate::exit::CommandExitCode;
use crate::render::puppet::count::{self, PuppetNodeTotals};
use crate::render::puppet::status::{self, node_states, render_status_table};
use crate::render::puppet::summary::{self, LastRunsSummary};

/// Replies and the output form.
struct PuppetQueryResult {
    report: RequestReport,
    json: Option<JsonForm>,
}

/// Shows Puppet's state on each node.
pub async fn show_status(
    args: PuppetQueryArgs,
    cx: CommandContext<'_>,
) -> Result<CommandExitCode, Error> {
    let result = query_nodes(args, "status", cx).await?;
    let (report, width) = (&result.report, cx.printer.screen().width);
    let states = node_states(report);
    result.print_answer(&status::PuppetStatusDocument::new(&states, report), cx, || {
        render_status_table(&states, report, width)
    })
}

/// Counts the nodes per state.
pub async fn show_counts(
    args: PuppetQueryArgs,
    cx: CommandContext<'_>,
) -> Result<CommandExitCode, Error> {
    let result = query_nodes(args, "status", cx).await?;
    let report = &result.report;
    let totals = PuppetNodeTotals::from_report(report);
    result.print_answer(&count::PuppetCountDocument::new(&totals, report), cx, || {
        totals.render_text(report)
    })
}

/// Shows the distribution of the last runs' figures.
pub async fn show_summary(
    args: PuppetQueryArgs,
    cx: CommandContext<'_>,
) -> Result<CommandExitCode, Error> {
    let result = query_nodes(args, "last_run_summary", cx).await?;
    let report = &result.report;
    let summary = LastRunsSummary::from_report(report);
    result.print_answer(&summary::PuppetSummaryDocument::new(&summary, report), cx, || {
        summary.render_text(report, cx.environment.utf8)
    })
}

async fn query_nodes(
    args: PuppetQueryArgs,
    action: &str,
    cx: CommandContext<'_>,
) -> Result<PuppetQueryResult, Error> {
    let target = cx.read_target(&args.filters)?.with_agent(PUPPET_AGENT)?;
    let json = form::parse_json_form(&args.json)?;
    let settings = cx.load_settings()?;
    let schemas = cx.load_schemas(Some(&settings))?;
    let plan = inquiry::plan_action(&schemas, (PUPPET_AGENT, action), Vec::new())?;
    let report = inquiry::discover_and_ask(&plan, &target, &settings, json.is_none(), cx).await?;
    if json.is_none() && report.stats.discovered == 0 {
        report_no_nodes(&target, cx);
    }
    Ok(PuppetQueryResult { report, json })
}

impl PuppetQueryResult {
    fn print_answer(
        &self,
        document: &impl Serialize,
        cx: CommandContext<'_>,
        text: impl FnOnce() -> String,
    ) -> Result<CommandExitCode, Error> {
        if let Some(json) = &self.json {
            cx.print_json(document, json)?;
        } else if self.report.stats.discovered > 0 {
            cx.printer.print_text(text())?;
            cx.warn_of_failures(&self.report);
        }
        cx.warn_of_gaps(&self.report);
        Ok(self.report.stats.outcome().into())
    }
}
