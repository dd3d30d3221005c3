//! One change at a time on a node, and none while Puppet applies a catalog.
//!
//! Ours is a queue within the daemon, first come, first served, and a lock file for whoever else uses the engine. Puppet's
//! lock is waited for, and held while the change is made, so that no run begins meanwhile.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use muster_api::system::pid_lock::PidLock;
use muster_api::system::{Attributes, Lock, System, SystemError};
use muster_api::wire::status::{Reason, Status};
use muster_api::{ActionError, Context};
use muster_engine::lock::{LockError, hold_puppets};
use muster_engine::providers::paths;
use serde_json::Map;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::{Instant, sleep};

use crate::options::Options;
use crate::puppet;
use crate::refusal;

/// The directory of lock files; the engine keeps its own there too.
const DIRECTORY: &str = "/run/muster";
/// Ours.
const FILE: &str = "/run/muster/puppetral.lock";
/// How often Puppet's lock is looked at. There is no call that waits for a file to go away.
const INTERVAL: Duration = Duration::from_millis(200);
/// When asking again is sensible: the usual length of a run.
const RETRY_AFTER: Duration = Duration::from_secs(30);
/// Longest file of `/proc`, or lock, that is read, in bytes.
const LIMIT: u64 = 64 * 1024;

/// The queue.
#[derive(Debug, Default)]
pub(crate) struct RunLock {
    queue: Arc<Mutex<()>>,
}

/// The right to change something, until it is dropped. Goes with the work, so that a change whose caller has given up
/// still keeps the next one waiting.
#[derive(Debug)]
pub(crate) struct Turn {
    _first: OwnedMutexGuard<()>,
}

impl RunLock {
    /// Waits for the changes that were asked for before, then for Puppet, as long as the options say.
    pub(crate) async fn turn(&self, cx: &Context, options: &Options) -> Result<Turn, ActionError> {
        let first = Arc::clone(&self.queue).lock_owned().await;
        let patience = Instant::now() + options.lock_wait;
        loop {
            let system = Arc::clone(&cx.system);
            let lock = options.lock.clone();
            let runs = cx
                .blocking(move |_| puppet_runs(&*system, lock.as_deref()))
                .await?;
            match runs.map_err(|error| refusal::of_system(&error))? {
                None => return Ok(Turn { _first: first }),
                Some(pid) if Instant::now() >= patience => return Err(busy(pid)),
                Some(_) => sleep(INTERVAL).await,
            }
        }
    }
}

/// Takes the lock file, waiting as long as that. Blocks.
pub(crate) fn lock_file(
    system: &dyn System,
    patience: Duration,
) -> Result<Box<dyn Lock>, SystemError> {
    paths::create_dirs(system, Path::new(DIRECTORY), &Attributes::default())?;
    system.lock(Path::new(FILE), patience)
}

/// Takes Puppet's own lock, wherever a Puppet of this machine would keep it. Blocks.
pub(crate) fn hold_puppet(
    system: &dyn System,
    options: &Options,
) -> Result<Vec<PidLock>, ActionError> {
    let on_host = |path: PathBuf| {
        let inside = path.strip_prefix("/").unwrap_or(&path).to_owned();
        system.root().join(inside)
    };
    let locks = puppet::state_file(options.lock.as_deref(), "agent_catalog_run.lock");
    let locks: Vec<PathBuf> = locks.into_iter().map(on_host).collect();
    hold_puppets(&locks, options.lock_wait).map_err(|error| match error {
        LockError::Puppet { pid, .. } => busy(pid),
        LockError::System(error) => refusal::of_system(&error),
        other => ActionError::failed(other.to_string()),
    })
}

fn busy(pid: u32) -> ActionError {
    ActionError {
        status: Status::Other,
        message: format!("Puppet is applying a catalog (process {pid}); ask again when it is done"),
        reason: Some(Reason::Busy {
            retry_after_ms: u64::try_from(RETRY_AFTER.as_millis()).unwrap_or(u64::MAX),
        }),
        data: Map::new(),
    }
}

/// The process that applies a catalog, if one does. A lock that is empty, garbage, or of a process that is gone or is
/// not Puppet, holds nobody up: Puppet itself would take it away.
fn puppet_runs(system: &dyn System, lock: Option<&Path>) -> Result<Option<u32>, SystemError> {
    for path in puppet::state_file(lock, "agent_catalog_run.lock") {
        let content = match system.read(&path, LIMIT) {
            Ok(content) => content,
            Err(SystemError::TooLarge { .. }) => continue,
            Err(error) if error.is_not_found() => continue,
            Err(error) => return Err(error),
        };
        let pid = String::from_utf8_lossy(&content).trim().parse::<u32>().ok();
        if let Some(pid) = pid.filter(|pid| is_puppet(system, *pid)) {
            return Ok(Some(pid));
        }
    }
    Ok(None)
}

/// Puppet's own test: the process is called `puppet`, `puppet-...` or `...puppet`, or is a Ruby that runs Puppet.
fn is_puppet(system: &dyn System, pid: u32) -> bool {
    let text = |file: &str| {
        let read = system.read(Path::new(&format!("/proc/{pid}/{file}")), LIMIT);
        read.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    };
    let name = text("comm");
    let name = name.trim();
    let called = name.ends_with("puppet") || name.contains("puppet-");
    called || (name.contains("ruby") && text("cmdline").contains("puppet"))
}
