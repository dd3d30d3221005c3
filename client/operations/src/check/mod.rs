//! A check on many nodes: one state, as a Nagios plugin has it, of the states of all nodes.

mod cache;
mod fleet_checks;
mod passive;
mod perf_summary;
mod report;
mod rules;

use std::time::{Duration, Instant};

use muster_client::{
    FleetConnection, FleetRequest, FleetRequestError, Located, NodeListOptions, RequestObserver,
    RequestPlan, TargetSelection, list_registered,
};
use muster_wire::identity::Identity;

pub use cache::{CheckCache, CheckCacheError, CheckLock};
pub use fleet_checks::{FleetCheck, FleetCheckList, list_recorded_checks};
pub use passive::{
    DeliveryReport, IcingaApi, IcingaApiError, NagiosPipe, NagiosPipeError, PassiveQueue,
    PassiveResult, PassiveSink, PassiveSinkError, PassiveWork, RefusedResult, describe_refused,
};
pub use perf_summary::{PerfSummary, summarize_perfdata};
pub use report::{CheckOutcome, CheckReport, NodeCheckResult};
pub use rules::{CheckRules, NodeThreshold};

/// A check of the nodes that match.
#[derive(Debug, Clone, Copy)]
pub struct CheckRequest<'a> {
    /// The name of the check.
    pub command: &'a str,
    /// The validated request of `nrpe runcommand`.
    pub plan: &'a RequestPlan<'a>,
    /// The nodes.
    pub target: &'a TargetSelection,
    /// Time limit of the check on a node; the DDL's when absent.
    pub timeout: Option<Duration>,
    /// Whether nodes that only the directory knows are checked, too.
    pub expect: bool,
}

/// Runs a check on the nodes that match, and returns the state of each. Nodes that do not reply are unknown.
pub async fn run_check(
    fleet: &FleetConnection,
    check: CheckRequest<'_>,
    observer: &dyn RequestObserver,
) -> Result<CheckReport, FleetRequestError> {
    let start = Instant::now();
    let mut found = fleet.locate(check.target, observer).await?;
    if check.expect {
        add_expected_nodes(fleet, check.target, &mut found).await?;
    }
    let request = FleetRequest { timeout: check.timeout, ..FleetRequest::new(check.plan) };
    let report = fleet.run_request(request, found, observer).await?;
    Ok(CheckReport::from_request(check.command, &report, start.elapsed()))
}

/// Adds the nodes that match according to the directory, also those that were not seen for long.
async fn add_expected_nodes(
    fleet: &FleetConnection,
    target: &TargetSelection,
    found: &mut Located,
) -> Result<(), FleetRequestError> {
    let options = NodeListOptions { with_stale: true, ..NodeListOptions::default() };
    let list = list_registered(fleet, target, options).await?.into_ready()?;
    found.nodes.extend(list.nodes.iter().filter_map(|row| Identity::parse(&row.node).ok()));
    Ok(())
}
