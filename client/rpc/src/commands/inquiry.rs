//! What commands ask agents, mostly `rpcutil`, for their own purposes: everybody at once, kept nowhere, shown by whoever asks.

use super::context::CommandContext;
use crate::ask::{
    AgentSchemas, DiscoveredNodes, FleetConnection, FleetRequest, FleetRequestError, JobRecorder,
    ProgressReporter, RequestPlan, RequestWords, TargetSelection,
};
use crate::error::Error;
use crate::report::RequestReport;
use crate::settings::RpcSettings;

/// The agent that every node has.
pub const RPCUTIL_AGENT: &str = "rpcutil";

/// An action of `rpcutil` with these inputs, as they would be typed.
pub fn plan_rpcutil<'a>(
    schemas: &'a AgentSchemas,
    action: &str,
    inputs: &[(&str, &str)],
) -> Result<RequestPlan<'a>, FleetRequestError> {
    let inputs = inputs.iter();
    let inputs = inputs.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    plan_action(schemas, (RPCUTIL_AGENT, action), inputs.collect())
}

/// An action of any agent with these inputs, as they would be typed.
pub fn plan_action<'a>(
    schemas: &'a AgentSchemas,
    (agent, action): (&str, &str),
    inputs: Vec<(String, String)>,
) -> Result<RequestPlan<'a>, FleetRequestError> {
    let words = RequestWords {
        agent: agent.to_owned(),
        action: Some(action.to_owned()),
        inputs,
    };
    let (ddl, action) = schemas.find_action(&words)?;
    RequestPlan::new(ddl, action, &words.inputs)
}

/// Asks these nodes.
pub async fn ask_nodes(
    fleet: &FleetConnection,
    plan: &RequestPlan<'_>,
    found: DiscoveredNodes,
    progress: &ProgressReporter<'_>,
) -> Result<RequestReport, Error> {
    let mut unrecorded = JobRecorder::new(None, progress.printer());
    let question = FleetRequest::new(plan);
    fleet
        .run_request(question, found, &mut unrecorded, progress, |_| Ok(()))
        .await
}

/// Connects, finds whoever is meant, and asks them; at a terminal waiting is shown, if that is wanted.
pub async fn discover_and_ask(
    plan: &RequestPlan<'_>,
    target: &TargetSelection,
    settings: &RpcSettings,
    shown: bool,
    cx: CommandContext<'_>,
) -> Result<RequestReport, Error> {
    let fleet = FleetConnection::connect(settings, target).await?;
    let progress = ProgressReporter::new(cx.printer, shown);
    let found = fleet.discover_nodes(target, &progress).await?;
    ask_nodes(&fleet, plan, found, &progress).await
}
