//! Identifies the daemon instance on this node. A restarting daemon re-executes itself and keeps its PID, so the PID cannot show a restart.

use muster_api::system::{ProcessId, SystemResult};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::restart::store::RestartStore;

const INSTANCE_FILE: &str = "daemon.instance";
/// Largest instance file in bytes.
const MAX_INSTANCE_BYTES: u64 = 64 * 1024;

/// One daemon instance, from start to exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonInstance {
    /// Its process.
    pub process: ProcessId,
    /// Identifier that is new after each start.
    pub instance: Uuid,
    /// Whether the broker has confirmed its subscriptions and it has stayed connected since.
    pub ready: bool,
}

impl DaemonInstance {
    /// The instance of this process, just started.
    pub fn for_current_process() -> Self {
        let pid = std::process::id();
        Self {
            process: ProcessId::from_pid(pid).unwrap_or(ProcessId { pid, started: 0 }),
            instance: Uuid::now_v7(),
            ready: false,
        }
    }

    /// Reads the stored instance. `None` if its process no longer runs.
    pub fn read_from(store: &RestartStore) -> SystemResult<Option<Self>> {
        if !store.path().is_dir() {
            return Ok(None);
        }
        let found: Option<Self> =
            store.open_directory()?.read_record(INSTANCE_FILE, MAX_INSTANCE_BYTES)?;
        Ok(found.filter(|found| ProcessId::from_pid(found.process.pid) == Some(found.process)))
    }

    /// Stores the instance.
    pub fn write_to(&self, store: &RestartStore) -> SystemResult<()> {
        store.open_directory()?.replace_record(INSTANCE_FILE, self)
    }
}
