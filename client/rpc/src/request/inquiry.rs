//! Sends requests that commands need for their own output, mostly to `rpcutil`. All nodes at once; no job is saved.

use std::collections::BTreeSet;

use muster_client::{
    FleetConnection, FleetRequest, Located, RequestPlan, RequestReport, TargetSelection,
};
use muster_ddl::{Action, AgentContract as _};
use muster_wire::identity::Identity;
use serde::Serialize;

use crate::flags::filters::QueryArgs;
use crate::report::documents::ReportDocument;
use crate::report::progress::ProgressReporter;
use crate::session::context::{CommandContext, CommandResult, Result};
use crate::session::form::JsonForm;

pub async fn ask_nodes(
    fleet: &FleetConnection,
    plan: &RequestPlan<'_>,
    found: Located,
    progress: &ProgressReporter<'_>,
) -> Result<RequestReport> {
    Ok(fleet.run_request(FleetRequest::new(plan), found, progress).await?)
}

pub async fn ask_node(
    fleet: &FleetConnection,
    plan: &RequestPlan<'_>,
    node: &Identity,
    progress: &ProgressReporter<'_>,
) -> Result<RequestReport> {
    let found = Located::from_names(BTreeSet::from([node.clone()]));
    ask_nodes(fleet, plan, found, progress).await
}

/// Connects, discovers the target nodes and sends the request. Shows progress on a terminal, if requested.
pub async fn discover_and_ask(
    plan: &RequestPlan<'_>,
    target: &TargetSelection,
    show_progress: bool,
    cx: CommandContext<'_>,
) -> Result<RequestReport> {
    let fleet = cx.connect(target).await?;
    let progress = ProgressReporter::new(cx.printer, show_progress);
    let found = fleet.locate(target, &progress).await?;
    ask_nodes(&fleet, plan, found, &progress).await
}

/// The replies to a question that changes nothing, and their output form.
pub struct QueryResult<'a> {
    pub report: RequestReport,
    json: Option<JsonForm>,
    target: TargetSelection,
    cx: CommandContext<'a>,
}

/// Asks the nodes that the options select.
pub async fn query_nodes<'a, A: Action>(
    args: &QueryArgs,
    input: &A::Input,
    cx: CommandContext<'a>,
) -> Result<QueryResult<'a>> {
    let target = cx.read_target(&args.filters)?.with_agent(A::Agent::NAME)?;
    let json = args.json.form()?;
    let schemas = cx.load_configured_schemas()?;
    let plan = schemas.plan::<A>(input)?;
    let report = discover_and_ask(&plan, &target, json.is_none(), cx).await?;
    Ok(QueryResult { report, json, target, cx })
}

impl QueryResult<'_> {
    /// Like [`Self::print_answer`], for text that has no line for nodes that failed or did not reply: warnings name these. Without an answer, only they
    /// are printed.
    pub fn print_answered(
        &self,
        schema: &'static str,
        content: impl Serialize,
        print_text: impl FnOnce() -> Result<()>,
    ) -> CommandResult {
        let is_answered = self.report.successes().next().is_some();
        let code =
            self.print_answer(schema, content, || if is_answered { print_text() } else { Ok(()) });
        self.cx.warn_of_failures(&self.report);
        self.cx.warn_of_silent(&self.report.stats.missing);
        code
    }

    /// Prints the content and the statistics as a document if JSON is selected, otherwise calls `print_text`, if any node was discovered.
    pub fn print_answer(
        &self,
        schema: &'static str,
        content: impl Serialize,
        print_text: impl FnOnce() -> Result<()>,
    ) -> CommandResult {
        if let Some(json) = &self.json {
            self.cx.print_json(&ReportDocument::new(schema, content, &self.report), json)?;
        } else if self.report.stats.discovered == 0 {
            self.cx.report_no_nodes(&self.target);
        } else {
            print_text()?;
        }
        self.cx.warn_of_gaps(&self.report);
        Ok(self.report.stats.outcome().into())
    }
}
