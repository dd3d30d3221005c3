//! The worker: a process that executes the restarts of one target.
//!
//! It stores every step before executing it, so that another worker can continue after a crash. After a crash during the restart, the main
//! process shows the result: a new process means that the restart has happened.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_api::base::{duration_millis, error_chain};
use muster_api::system::process::pause;
use muster_api::system::real::RealSystem;
use muster_api::system::{ProcessId, StateDir, System, SystemResult};
use muster_engine::lock::{CatalogRunLock, LockError};

use crate::restart::cycle::{
    ClockReading, MachinePaths, RestartCycle, RestartRecord, RestartState,
};
use crate::restart::instance::DaemonInstance;
use crate::restart::restart_methods::{self, RestartFailure};
use crate::restart::store::{RestartStore, read_clocks};
use crate::restart::target_status::{TargetStatus, query_target};

/// Poll interval of the run lock, and so the longest delay between the end of a run and the restart.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Timeout for a new process to appear.
const PROCESS_START_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the new process is watched. A process that exits within this time counts as a failed restart.
const WATCH_DURATION: Duration = Duration::from_secs(1);
/// How long the daemon may take to finish running actions and be ready again.
const DAEMON_TIMEOUT: Duration = Duration::from_mins(5);

/// The worker of one target.
#[derive(Debug)]
pub struct RestartWorker {
    store: RestartStore,
    key: String,
    system: Arc<dyn System>,
    /// Timeout for a new process to appear.
    start_timeout: Duration,
    /// How long the new process is watched.
    watch_duration: Duration,
}

/// Executes all pending restarts, unless another worker does. Runs in a process of its own.
pub fn run_worker(directory: &Path, key: &str) -> SystemResult<()> {
    let store = RestartStore::new(directory);
    let Some(record) = store.read_record(key)? else { return Ok(()) };
    let system = Arc::new(RealSystem::new(record.places.root));
    RestartWorker::new(store, key, system).run()
}

/// Prevents runs while it is held, if the run lock could be taken.
struct RunLockGuard {
    _lock: Option<CatalogRunLock>,
}

impl RestartWorker {
    /// A worker on this machine.
    pub fn new(store: RestartStore, key: &str, system: Arc<dyn System>) -> Self {
        Self {
            store,
            key: key.to_owned(),
            system,
            start_timeout: PROCESS_START_TIMEOUT,
            watch_duration: WATCH_DURATION,
        }
    }

    /// Shortens the timeouts for tests with simulated machines.
    #[cfg(test)]
    pub(crate) fn hasty(mut self) -> Self {
        self.start_timeout = Duration::from_millis(50);
        self.watch_duration = Duration::from_millis(10);
        self
    }

    /// Runs until no work is left.
    pub fn run(&self) -> SystemResult<()> {
        let Some(lock) = self.store.try_lock_worker(&self.key)? else { return Ok(()) };
        let mut lock = Some(lock);
        loop {
            // Releases the lock in the same transaction: a later request finds either pending work or no worker.
            let more = self.store.update_record(&self.key, |record| {
                let more = record.as_mut().is_some_and(RestartRecord::advance_cycle);
                if !more {
                    drop(lock.take());
                }
                more
            })?;
            if !more {
                return Ok(());
            }
            if let Some(record) = self.store.read_record(&self.key)? {
                self.continue_cycle(&record)?;
            }
        }
    }

    /// Executes the current restart from its stored state to the end.
    fn continue_cycle(&self, record: &RestartRecord) -> SystemResult<()> {
        match record.current.state {
            RestartState::Verifying => self.verify_restart(),
            RestartState::Restarting if self.was_restarted(record) => {
                self.record_step(
                    RestartState::Verifying,
                    "restarted by an earlier worker that was stopped",
                )?;
                self.verify_restart()
            }
            _ => self.perform_restart(),
        }
    }

    /// Whether a crashed worker had already restarted the target.
    fn was_restarted(&self, record: &RestartRecord) -> bool {
        let cycle = &record.current;
        if let Some(before) = cycle.instance {
            return self.daemon_instance().is_some_and(|now| now.instance != before);
        }
        let now = self.query_target(record).ok().and_then(|found| found.process);
        matches!((cycle.before, now), (Some(before), Some(now)) if before != now)
    }

    fn perform_restart(&self) -> SystemResult<()> {
        let Some(run_lock) = self.wait_for_run_lock()? else { return Ok(()) };
        let Some(record) = self.store.read_record(&self.key)? else { return Ok(()) };
        let instance = self.daemon_instance().filter(|_| record.target.is_daemon());
        let found = self.query_target(&record).unwrap_or_default();
        if let Some(path) = found.missing.filter(|_| instance.is_none()) {
            return self.record_failure(&RestartFailure::unknown_service(&path));
        }
        let before = found.process;
        self.update_cycle(|cycle, now| {
            cycle.before = before;
            cycle.instance = instance.map(|instance| instance.instance);
            let text = format!("restarting {}", record.target);
            cycle.record_step(RestartState::Restarting, text, now);
        })?;
        let output = self.store.path().join(format!("{}.out", self.key));
        let (system, target) = (&*self.system, &record.target);
        let result = restart_methods::restart_target(system, target, instance.as_ref(), &output);
        // The restarted service may need the run lock at once.
        drop(run_lock);
        if let Err(failure) = result {
            return self.record_failure(&failure);
        }
        self.record_step(RestartState::Verifying, "restarted; checking whether it runs")?;
        self.verify_restart()
    }

    /// Waits until no run is in progress and takes the run lock. `None` if the restart ended during the wait.
    fn wait_for_run_lock(&self) -> SystemResult<Option<RunLockGuard>> {
        let (started_at, started_wall) = (Instant::now(), read_clocks(&*self.system).wall);
        let mut reported = String::new();
        loop {
            let Some(record) = self.store.read_record(&self.key)? else { return Ok(None) };
            let cycle = &record.current;
            if !cycle.when_idle {
                self.record_step(
                    RestartState::Locked,
                    "not waiting for runs to end, as requested",
                )?;
                return Ok(Some(RunLockGuard { _lock: None }));
            }
            let reason = match take_run_lock(&record.places) {
                Ok(lock) => {
                    self.record_step(
                        RestartState::Locked,
                        "no run is in progress, and none can start",
                    )?;
                    return Ok(Some(RunLockGuard { _lock: Some(lock) }));
                }
                Err(LockError::System(error)) => {
                    let problem = format!("cannot acquire the run lock: {}", error_chain(&error));
                    self.record_step(RestartState::Failed, problem)?;
                    return Ok(None);
                }
                Err(error) => error_chain(&error),
            };
            // The start of waiting comes from the wall clock; the elapsed time comes from a monotonic clock.
            let waited = duration_millis(started_at.elapsed());
            let deadline_passed = started_wall.saturating_add(waited) >= cycle.deadline;
            if deadline_passed && cycle.force {
                self.record_step(
                    RestartState::Locked,
                    format!("deadline reached, restarting anyway: {reason}"),
                )?;
                return Ok(Some(RunLockGuard { _lock: None }));
            }
            if deadline_passed {
                let problem = format!("restart_timeout: not restarted, because {reason}");
                self.record_step(RestartState::Timeout, problem)?;
                return Ok(None);
            }
            if reason != reported {
                self.record_step(RestartState::Waiting, format!("waiting: {reason}"))?;
                reported = reason;
            }
            pause(POLL_INTERVAL);
        }
    }

    /// Checks whether the target runs again, and stores the outcome.
    fn verify_restart(&self) -> SystemResult<()> {
        let Some(record) = self.store.read_record(&self.key)? else { return Ok(()) };
        let found = if record.current.instance.is_some() {
            self.await_daemon(&record.current, DAEMON_TIMEOUT)
        } else {
            self.await_process(&record).and_then(|found| match record.current.verify_bus {
                Some(_) => self.await_daemon(&record.current, Duration::MAX).map(|_| found),
                None => Ok(found),
            })
        };
        self.update_cycle(|cycle, now| match found {
            Ok((after, text)) => {
                cycle.after = after;
                cycle.record_step(RestartState::Ok, text, now);
            }
            Err(failure) => cycle.record_step(RestartState::Failed, failure.to_string(), now),
        })
    }

    /// Waits for the new main process. Returns it with a description.
    fn await_process(
        &self,
        record: &RestartRecord,
    ) -> Result<(Option<ProcessId>, String), RestartFailure> {
        let cycle = &record.current;
        let can_verify = matches!(record.target, crate::restart::RestartTarget::Unit(_))
            || cycle.pid_file.is_some();
        if !can_verify {
            return Ok((None, "the command succeeded".to_owned()));
        }
        let target = &record.target;
        let deadline = Instant::now() + self.start_timeout;
        let status = loop {
            let found = self.query_target(record)?;
            if let Some(path) = found.missing {
                return Err(RestartFailure::unknown_service(&path));
            }
            let is_new = found.process.is_none() || found.process != cycle.before;
            let timed_out = Instant::now() >= deadline;
            match found.process {
                _ if found.running && is_new => break found,
                Some(process) if found.running && timed_out => {
                    return Err(RestartFailure::new(format!(
                        "{target} is still process {}, as before",
                        process.pid
                    )));
                }
                _ if timed_out => {
                    return Err(RestartFailure::new(format!(
                        "{target} is not running after the restart"
                    )));
                }
                _ => pause(POLL_INTERVAL),
            }
        };
        self.watch_process(record, &status)
    }

    /// Watches the new process for a moment. It must not exit at once.
    fn watch_process(
        &self,
        record: &RestartRecord,
        status: &TargetStatus,
    ) -> Result<(Option<ProcessId>, String), RestartFailure> {
        pause(self.watch_duration);
        let current = self.query_target(record)?;
        if !current.running || (status.process.is_some() && current.process != status.process) {
            return Err(RestartFailure::new(format!("{} exited again immediately", record.target)));
        }
        // A service that writes its PID file late has written it by now.
        let after = current.process.or(status.process);
        let text = match (after, record.current.before) {
            (Some(after), Some(before)) if after == before => {
                return Err(RestartFailure::new(format!(
                    "{} is still process {}, as before",
                    record.target, after.pid
                )));
            }
            (Some(after), Some(before)) => {
                format!("process {} in place of {}", after.pid, before.pid)
            }
            (Some(after), None) => format!("process {}", after.pid),
            (None, _) => "it is running; its process ID is unknown".to_owned(),
        };
        Ok((after, text))
    }

    /// Waits until the daemon is ready. If the daemon was restarted, it must be another instance than before.
    fn await_daemon(
        &self,
        cycle: &RestartCycle,
        timeout: Duration,
    ) -> Result<(Option<ProcessId>, String), RestartFailure> {
        let limit = cycle.verify_bus.map_or(timeout, Duration::from_millis);
        let timeout = timeout.min(limit);
        let deadline = Instant::now() + timeout;
        loop {
            let found = self.daemon_instance().filter(|found| found.ready);
            let found = found.filter(|found| Some(found.instance) != cycle.instance);
            if let Some(found) = found {
                let text = format!("rpcd is ready again as process {}", found.process.pid);
                return Ok((Some(found.process), text));
            }
            if Instant::now() >= deadline {
                return Err(RestartFailure::new(format!(
                    "rpcd was not ready within {} s",
                    timeout.as_secs()
                )));
            }
            pause(POLL_INTERVAL);
        }
    }

    fn daemon_instance(&self) -> Option<DaemonInstance> {
        DaemonInstance::read_from(&self.store).ok().flatten()
    }

    fn query_target(&self, record: &RestartRecord) -> Result<TargetStatus, RestartFailure> {
        let pid_file = record.current.pid_file.as_deref();
        Ok(query_target(&self.system, &record.target, pid_file)?)
    }

    fn record_failure(&self, failure: &RestartFailure) -> SystemResult<()> {
        self.record_step(RestartState::Failed, failure.to_string())
    }

    fn record_step(&self, state: RestartState, text: impl Into<String>) -> SystemResult<()> {
        let text = text.into();
        self.update_cycle(|cycle, now| cycle.record_step(state, text, now))
    }

    fn update_cycle(
        &self,
        change: impl FnOnce(&mut RestartCycle, ClockReading),
    ) -> SystemResult<()> {
        let now = read_clocks(&*self.system);
        self.store.update_record(&self.key, |record| {
            if let Some(record) = record {
                change(&mut record.current, now);
            }
        })
    }
}

/// Takes the run lock if it is free.
fn take_run_lock(paths: &MachinePaths) -> Result<CatalogRunLock, LockError> {
    let engine = StateDir::open(&paths.engine)?;
    CatalogRunLock::acquire_ignoring_disabled(&engine, &paths.puppet, Duration::ZERO)
}
