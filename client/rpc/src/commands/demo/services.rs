//! Starts the services of the nodes with requests of the demonstration's user, as `rpc service start` does, and waits for the directory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use muster_client::{
    AgentSchemas, FleetConnection, FleetRequest, Located, NodeListOptions, RpcSettings,
    TargetSelection, list_registered,
};
use muster_contract::service::{ServiceChangeInput, ServiceStart};
use muster_organisation::bundle::name::USER_CONFIG;
use muster_wire::identity::Identity;
use tokio::time::{Instant, sleep};

use crate::commands::demo::error::DemoError;

/// Nodes in one request, so that a small machine does not start too many programs at once.
const NODES_PER_REQUEST: usize = 25;

/// Time for all nodes to register themselves: each waits up to 2 s after it connects.
const DIRECTORY_TIMEOUT: Duration = Duration::from_secs(20);
/// Further time for each node.
const DIRECTORY_TIMEOUT_PER_NODE: Duration = Duration::from_millis(10);
/// Pause between two queries of the directory, and what it is longer for each node.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
const POLL_INTERVAL_PER_NODE: Duration = Duration::from_micros(100);

/// The nodes whose service did not start, with the reason of the first.
#[derive(Debug, Default)]
pub struct FailedServices {
    pub nodes: BTreeSet<Identity>,
    /// Why the first of them failed.
    pub reason: String,
}

/// Starts each service on its nodes, and calls `report_progress` with the number of nodes after each request.
pub async fn start_services(
    directory: &Path,
    services: &BTreeMap<&'static str, Vec<Identity>>,
    mut report_progress: impl FnMut(usize),
) -> Result<FailedServices, DemoError> {
    let settings = RpcSettings::load(&directory.join(USER_CONFIG))?;
    let fleet = FleetConnection::connect(&settings, &TargetSelection::default()).await?;
    let schemas = AgentSchemas::load(Some(&settings))?;
    let mut failed = FailedServices::default();
    let mut count = 0;
    for (service, nodes) in services {
        let input = ServiceChangeInput { service: (*service).to_owned(), noop: None };
        let plan = schemas.plan::<ServiceStart>(&input)?;
        for nodes in nodes.chunks(NODES_PER_REQUEST) {
            let named: BTreeSet<Identity> = nodes.iter().cloned().collect();
            let target = Located::from_names(named.clone());
            let report = fleet.run_request(FleetRequest::new(&plan), target, &()).await?;
            let started: BTreeSet<Identity> =
                report.successes().map(|reply| reply.node.clone()).collect();
            if let Some(reply) = report.failures().next()
                && failed.reason.is_empty()
            {
                failed.reason = reply.message.line().into_owned();
            }
            failed.nodes.extend(&named - &started);
            count += nodes.len();
            report_progress(count);
        }
    }
    if failed.reason.is_empty() {
        "no reply".clone_into(&mut failed.reason);
    }
    Ok(failed)
}

/// Waits until the directory has all nodes and has seen each of them, so that the first command finds them present. Returns whether it has.
pub async fn await_directory(directory: &Path, nodes: u32) -> Result<bool, DemoError> {
    let settings = RpcSettings::load(&directory.join(USER_CONFIG))?;
    let target = TargetSelection::default();
    let fleet = FleetConnection::connect(&settings, &target).await?;
    let deadline = Instant::now() + DIRECTORY_TIMEOUT + DIRECTORY_TIMEOUT_PER_NODE * nodes;
    while Instant::now() < deadline {
        let listed = list_registered(&fleet, &target, NodeListOptions::default()).await;
        let present =
            listed.map(|list| list.nodes.iter().filter(|node| node.state == "present").count());
        if present.is_ok_and(|present| u32::try_from(present) == Ok(nodes)) {
            return Ok(true);
        }
        sleep(POLL_INTERVAL + POLL_INTERVAL_PER_NODE * nodes).await;
    }
    Ok(false)
}
