//! The tasks of the agent `again`: one begins runs, one keeps what is wrong with its journal among the health findings.

use std::sync::Arc;

use muster_api::{FindingLevel, NodeHandle};
use muster_node::core::DaemonCore;
use muster_puppet::again::AgainMonitor;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Starts the tasks, if the node has the agent.
pub(crate) fn start(
    monitor: Option<&AgainMonitor>,
    core: &Arc<DaemonCore>,
    stop: CancellationToken,
) -> Vec<JoinHandle<()>> {
    let Some(monitor) = monitor else { return Vec::new() };
    let node: Arc<dyn NodeHandle> = Arc::clone(core) as Arc<dyn NodeHandle>;
    let runs = tokio::spawn(monitor.clone().run(node, Arc::clone(&core.node.system), stop));
    let findings = tokio::spawn(report_problems(monitor.clone(), Arc::clone(core)));
    vec![runs, findings]
}

async fn report_problems(monitor: AgainMonitor, core: Arc<DaemonCore>) {
    let mut problems = monitor.problems();
    while problems.changed().await.is_ok() {
        let current = problems.borrow_and_update().clone();
        core.health.set_findings("again", FindingLevel::Warning, &current);
    }
}
