//! Daemons that run concurrently: started many at a time, stopped one by one or all together.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use muster_bus::{Bus, BusError};
use muster_node::config::RegistrationConfig;
use muster_node::core::DaemonCore;
use muster_node::core::audit::{AuditLog, AuditLogError, AuditOptions};
use muster_node::ground::shared::lock_mutex;
use muster_node::pipeline::daemon::Daemon;
use muster_wire::identity::Identity;
use muster_wire::sign::Signer;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::services::registration::NodeRegistration;

/// Number of nodes that share one audit log: fewer than its queue holds, so that the records of a request to all nodes fit.
const NODES_PER_LOG: usize = 1000;
/// How long a node's running actions may continue after it is stopped.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub enum NodeFleetError {
    /// It cannot connect, or lost the connection while it subscribed.
    #[error("the virtual node {node} cannot connect")]
    Connect { node: Identity, source: BusError },
    #[error("the virtual node {node} is already running")]
    AlreadyRunning { node: Identity },
}

#[derive(Debug)]
pub struct NodeFleet {
    nodes: Mutex<BTreeMap<Identity, RunningNode>>,
    logs: Vec<Arc<AuditLog>>,
    /// How nodes register with the directory, and the time over which they spread their writes.
    registration: Option<(RegistrationConfig, Duration)>,
}

#[derive(Debug)]
struct RunningNode {
    stop: CancellationToken,
    bus: Bus,
    daemon: JoinHandle<()>,
    _registration: Option<AbortOnDropHandle<()>>,
}

impl NodeFleet {
    /// The audit logs are in this directory, signed with this signer.
    pub fn new(
        nodes: usize,
        directory: &Path,
        signer: &Signer,
        account: &str,
    ) -> Result<Self, AuditLogError> {
        let log = |number: usize| {
            let path = directory.join(format!("audit.{number}.log"));
            let options = AuditOptions::new(path, signer.clone(), account.to_owned());
            AuditLog::open(options).map(Arc::new)
        };
        let logs = (0..nodes.div_ceil(NODES_PER_LOG)).map(log);
        let logs = logs.collect::<Result<_, _>>()?;
        Ok(Self { nodes: Mutex::default(), logs, registration: None })
    }

    /// Lets the nodes publish their records and heartbeats, and spread the writes after a connection over this time.
    #[must_use]
    pub fn with_registration(self, config: RegistrationConfig, spread: Duration) -> Self {
        Self { registration: Some((config, spread)), ..self }
    }

    /// The audit log of the node with this number; `None` if the number exceeds the fleet's size.
    pub fn log_for(&self, number: usize) -> Option<Arc<AuditLog>> {
        self.logs.get(number / NODES_PER_LOG).map(Arc::clone)
    }

    pub fn audit_logs(&self) -> &[Arc<AuditLog>] {
        &self.logs
    }

    /// Starts a node on this connection, its own or a shared one; returns when the broker has confirmed its subscriptions.
    pub async fn start_node(&self, core: DaemonCore, bus: Bus) -> Result<(), NodeFleetError> {
        let node = core.identity().clone();
        let core = Arc::new(core);
        let daemon = Daemon::start(Arc::clone(&core), bus.clone()).await;
        let daemon =
            daemon.map_err(|source| NodeFleetError::Connect { node: node.clone(), source })?;
        let mut nodes = lock_mutex(&self.nodes);
        if nodes.contains_key(&node) {
            return Err(NodeFleetError::AlreadyRunning { node });
        }
        let registration = self.registration.as_ref().map(|(config, spread)| {
            let registration = NodeRegistration::new(core, bus.clone(), config.clone(), *spread);
            AbortOnDropHandle::new(tokio::spawn(registration.run()))
        });
        let stop = CancellationToken::new();
        let daemon = tokio::spawn(daemon.run(stop.clone(), DRAIN_TIMEOUT));
        nodes.insert(node, RunningNode { stop, bus, daemon, _registration: registration });
        Ok(())
    }

    pub fn len(&self) -> usize {
        lock_mutex(&self.nodes).len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn node_connections(&self) -> Vec<(Identity, Bus)> {
        let nodes = lock_mutex(&self.nodes);
        let buses = nodes.iter().map(|(node, running)| (node.clone(), running.bus.clone()));
        buses.collect()
    }

    /// Stops all nodes concurrently, and waits at most this long.
    pub async fn stop_all(&self, timeout: Duration) {
        let nodes = std::mem::take(&mut *lock_mutex(&self.nodes));
        for running in nodes.values() {
            running.stop.cancel();
        }
        let all_stopped = async {
            for running in nodes.into_values() {
                let _ = running.daemon.await;
            }
        };
        if tokio::time::timeout(timeout, all_stopped).await.is_err() {
            tracing::warn!("some virtual nodes did not stop in time");
        }
    }
}
