//! Sends requests that commands need for their own output, mostly to `rpcutil`. All nodes at once; no job is saved.

use muster_request::{
    AgentSchemas, DiscoveredNodes, FleetConnection, FleetRequest, FleetRequestError, JobRecorder,
    RequestPlan, RequestReport, RequestWords, RpcSettings, TargetSelection,
};

use super::context::CommandContext;
use crate::error::Error;
use crate::progress::ProgressReporter;

/// The agent that every node offers.
pub const RPCUTIL_AGENT: &str = "rpcutil";

/// Plans an action of `rpcutil` with these inputs, given as on the command line.
pub fn plan_rpcutil<'a>(
    schemas: &'a AgentSchemas,
    action: &str,
    inputs: &[(&str, &str)],
) -> Result<RequestPlan<'a>, FleetRequestError> {
    let inputs = inputs.iter();
    let inputs = inputs.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    plan_action(schemas, (RPCUTIL_AGENT, action), inputs.collect())
}

/// Plans an action of any agent with these inputs, given as on the command line.
pub fn plan_action<'a>(
    schemas: &'a AgentSchemas,
    (agent, action): (&str, &str),
    inputs: Vec<(String, String)>,
) -> Result<RequestPlan<'a>, FleetRequestError> {
    let words = RequestWords { agent: agent.to_owned(), action: Some(action.to_owned()), inputs };
    let (ddl, action) = schemas.find_action(&words)?;
    RequestPlan::new(ddl, action, &words.inputs)
}

/// Sends the request to these nodes.
pub async fn ask_nodes(
    fleet: &FleetConnection,
    plan: &RequestPlan<'_>,
    found: DiscoveredNodes,
    progress: &ProgressReporter<'_>,
) -> Result<RequestReport, Error> {
    let mut recorder = JobRecorder::new(None, progress.printer());
    let request = FleetRequest::new(plan);
    fleet.run_request(request, found, &mut recorder, progress, |_| Ok(())).await
}

/// Connects, discovers the target nodes and sends the request. Shows progress on a terminal, if requested.
pub async fn discover_and_ask(
    plan: &RequestPlan<'_>,
    target: &TargetSelection,
    settings: &RpcSettings,
    show_progress: bool,
    cx: CommandContext<'_>,
) -> Result<RequestReport, Error> {
    let fleet = FleetConnection::connect(settings, target).await?;
    let progress = ProgressReporter::new(cx.printer, show_progress);
    let found = fleet.discover_nodes(target, &progress).await?;
    ask_nodes(&fleet, plan, found, &progress).await
}
