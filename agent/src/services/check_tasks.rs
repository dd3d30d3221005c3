//! The task of the scheduled checks: it runs from the start of the daemon, without a broker, and ends after its states are on disk.

use std::sync::Arc;
use std::time::Duration;

use muster_agents::nrpe::CheckMonitor;
use muster_api::{FindingLevel, NodeHandle};
use muster_node::core::DaemonCore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// How long the daemon waits for the end of the checks when it stops. A check that ignores the signal to end is killed before.
const STOP_TIMEOUT: Duration = Duration::from_secs(8);

/// The running task, if the node has scheduled checks.
#[derive(Debug)]
pub(crate) struct CheckTasks {
    runs: Option<JoinHandle<()>>,
    _findings: Option<AbortOnDropHandle<()>>,
}

impl CheckTasks {
    pub(crate) fn start(
        checks: Option<&CheckMonitor>,
        core: &Arc<DaemonCore>,
        stop: CancellationToken,
    ) -> Self {
        let Some(checks) = checks else { return Self { runs: None, _findings: None } };
        let node: Arc<dyn NodeHandle> = Arc::clone(core) as Arc<dyn NodeHandle>;
        let runs = tokio::spawn(checks.clone().run(node, Arc::clone(&core.node.system), stop));
        let findings = tokio::spawn(report_problems(checks.clone(), Arc::clone(core)));
        Self { runs: Some(runs), _findings: Some(AbortOnDropHandle::new(findings)) }
    }

    /// Waits until running checks have ended and the states are on disk.
    pub(crate) async fn wait_stopped(self) {
        let Some(runs) = self.runs else { return };
        if tokio::time::timeout(STOP_TIMEOUT, runs).await.is_err() {
            tracing::warn!("running checks do not end; the next daemon ends them");
        }
    }
}

/// Keeps the problems of the files of schedules among the health findings.
async fn report_problems(checks: CheckMonitor, core: Arc<DaemonCore>) {
    let mut problems = checks.problems();
    while problems.changed().await.is_ok() {
        let current = problems.borrow_and_update().clone();
        core.health.set_findings("checks", FindingLevel::Warning, &current);
    }
}
