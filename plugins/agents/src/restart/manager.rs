//! Accepts and looks up restart requests, and starts workers.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use muster_api::base::duration_millis;
use muster_api::system::{System, SystemError, SystemResult, launch};
use uuid::Uuid;

use crate::restart::cycle::{
    AcceptedRestart, MachinePaths, RestartCycle, RestartOptions, RestartRecord,
};
use crate::restart::store::{RestartStore, read_clocks};
use crate::restart::target::RestartTarget;

/// Retention of finished records.
const RECORD_RETENTION: Duration = Duration::from_hours(30 * 24);

/// Starts workers.
pub trait WorkerLauncher: fmt::Debug + Send + Sync {
    /// Ensures that a worker for this key of this store starts. Does not wait for it.
    fn launch(&self, store: &RestartStore, key: &str) -> SystemResult<()>;
}

/// Starts workers as detached processes. The program is called as
/// `PROGRAM restart-worker --directory STORE KEY`.
#[derive(Debug, Clone)]
pub struct DetachedLauncher(pub PathBuf);

impl WorkerLauncher for DetachedLauncher {
    fn launch(&self, store: &RestartStore, key: &str) -> SystemResult<()> {
        let unit = format!("muster-restart-{}", Uuid::now_v7().simple());
        let argv = [
            self.0.display().to_string(),
            "restart-worker".to_owned(),
            "--directory".to_owned(),
            store.path().display().to_string(),
            key.to_owned(),
        ];
        launch::launch_detached(&unit, &argv)
    }
}

/// A restart request failed.
#[derive(Debug, thiserror::Error)]
pub enum RestartError {
    /// The request cannot be stored.
    #[error("cannot store the restart request")]
    Store(#[source] SystemError),
    /// The request is stored, but no worker can be started.
    #[error(
        "the request is stored, but no worker can be started; the daemon retries when it starts"
    )]
    Launch(#[source] SystemError),
}

/// The restarts of a machine. Every call blocks, at most for a write to disk.
#[derive(Debug, Clone)]
pub struct RestartManager {
    store: RestartStore,
    paths: MachinePaths,
    launcher: Arc<dyn WorkerLauncher>,
    system: Arc<dyn System>,
}

impl RestartManager {
    /// Manages the restarts of this machine.
    pub fn new(
        store: RestartStore,
        paths: MachinePaths,
        launcher: Arc<dyn WorkerLauncher>,
        system: Arc<dyn System>,
    ) -> Self {
        Self { store, paths, launcher, system }
    }

    /// The store of requests.
    pub fn store(&self) -> &RestartStore {
        &self.store
    }

    /// Requests a restart. On return the request is on disk and a worker is starting.
    pub fn request_restart(
        &self,
        target: &RestartTarget,
        options: &RestartOptions,
    ) -> Result<AcceptedRestart, RestartError> {
        let key = target.record_key();
        let (id, now) = (Uuid::now_v7(), read_clocks(&*self.system));
        let add_request = |record: &mut Option<RestartRecord>| {
            if let Some(record) = record {
                // The paths may have changed since the record was created.
                record.places = self.paths.clone();
                return record.add_request(id, options, now);
            }
            let (target, paths) = (target.clone(), self.paths.clone());
            *record = Some(RestartRecord::new(target, paths, id, options, now));
            AcceptedRestart { id, merged: false }
        };
        let accepted = self.store.update_record(&key, add_request).map_err(RestartError::Store)?;
        self.ensure_worker(&key)?;
        Ok(accepted)
    }

    /// The restart with this identifier, otherwise the current or last one. `None` if there is none.
    pub fn find_cycle(
        &self,
        target: &RestartTarget,
        id: Option<Uuid>,
    ) -> SystemResult<Option<RestartCycle>> {
        let record = self.store.read_record(&target.record_key())?;
        Ok(record.and_then(|record| match id {
            None => Some(record.current),
            Some(id) => record.find_cycle(id).cloned(),
        }))
    }

    /// Starts workers for all unfinished requests, and removes records that have been finished for the retention time. Returns the number of
    /// started workers.
    pub fn resume_pending(&self) -> Result<usize, RestartError> {
        let mut started = 0;
        let now = read_clocks(&*self.system).wall;
        for key in self.store.list_keys().map_err(RestartError::Store)? {
            let is_expired = |record: &mut RestartRecord| {
                let finished = record.current.finished_at().filter(|_| record.is_idle());
                finished.is_some_and(|at| {
                    now.saturating_sub(at.wall) > duration_millis(RECORD_RETENTION)
                })
            };
            let prune = |record: &mut Option<RestartRecord>| {
                record.take_if(is_expired);
                record.as_ref().is_some_and(|record| !record.is_idle())
            };
            let is_pending = self.store.update_record(&key, prune).map_err(RestartError::Store)?;
            if is_pending && self.ensure_worker(&key)? {
                started += 1;
            }
        }
        Ok(started)
    }

    /// Starts a worker unless one runs. A second worker would fail to take the lock and exit.
    fn ensure_worker(&self, key: &str) -> Result<bool, RestartError> {
        let free = self.store.try_lock_worker(key).map_err(RestartError::Store)?;
        let Some(lock) = free else { return Ok(false) };
        drop(lock);
        self.launcher.launch(&self.store, key).map_err(RestartError::Launch)?;
        Ok(true)
    }
}
