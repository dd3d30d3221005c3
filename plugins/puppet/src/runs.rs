//! Manages all runs of the node: one at a time, each identity only once. A request for a run in progress attaches to it; a request for an ended run
//! gets its result.

use muster_api::base::unix_millis;
use muster_api::system::{ProcessSpool, System, SystemResult};
use muster_api::wire::history::RunCause;
use muster_api::wire::identity::{NameError, SubjectName};
use muster_api::{HistoryRecorder, StateChanges};
use muster_contract::puppet::{PuppetRunClass, PuppetRunOutcome, PuppetRunState};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::permits::PermitClient;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::arguments::PuppetRunOptions;
use crate::drive::RunDriver;
use crate::history::OtherRunRecorder;
use crate::options::{Options, RunCatalog};
use crate::permit::PermitParameters;
use crate::program;
use crate::record::{PuppetRunRecord, RunRecordStore};

/// State shared by the actions and the monitor.
#[derive(Debug)]
pub(crate) struct PuppetRunManager {
    pub(crate) options: Options,
    /// The default pool.
    pub(crate) pool: SubjectName,
    pub(crate) permits: PermitClient,
    pub(crate) records: RunRecordStore,
    /// Serialises runs in the order of their requests.
    pub(crate) run_lock: tokio::sync::Mutex<()>,
    /// Cancelled when the daemon stops; programs continue without it.
    pub(crate) stopping: CancellationToken,
    /// Cancelled when the runs of an earlier daemon are resumed.
    pub(crate) resumed: CancellationToken,
    active_runs: Mutex<HashMap<Uuid, Arc<ActiveRun>>>,
    /// Notified when a run has ended.
    pub(crate) state_changes: StateChanges,
    pub(crate) history: HistoryRecorder,
    pub(crate) other_runs: OtherRunRecorder,
}

#[derive(Debug)]
pub(crate) struct ActiveRun {
    pub(crate) outcome: watch::Sender<PuppetRunOutcome>,
    /// Cancelled when the run is no longer wanted.
    pub(crate) cancel: CancellationToken,
    /// Cancelled with `cancel`, and when the run must not begin.
    pub(crate) withdrawn: CancellationToken,
    pub(crate) since: Instant,
    waiting: AtomicUsize,
    /// Whether the run continues without waiters.
    in_background: bool,
}

/// Dropping the last waiter cancels a run that has not started yet.
#[derive(Debug)]
pub(crate) struct RunWaiter(Arc<ActiveRun>);

#[derive(Debug)]
pub(crate) enum BeginRunResult {
    /// Attached to this run; `true` if an earlier request began it.
    Active(RunWaiter, bool),
    Finished(Box<PuppetRunOutcome>),
}

#[derive(Debug, Clone)]
pub(crate) struct PuppetRunRequest {
    pub(crate) id: Uuid,
    pub(crate) request: Uuid,
    pub(crate) caller: String,
    /// Why it runs, for the fleet's history.
    pub(crate) cause: RunCause,
    pub(crate) trace: Option<String>,
    /// The node's name.
    pub(crate) host: String,
    pub(crate) run_options: PuppetRunOptions,
    pub(crate) catalog: Option<RunCatalog>,
    pub(crate) permit_parameters: PermitParameters,
    pub(crate) in_background: bool,
}

impl PuppetRunManager {
    pub(crate) fn new(
        options: Options,
        permits: PermitClient,
        state_changes: StateChanges,
        history: HistoryRecorder,
    ) -> Result<Arc<Self>, NameError> {
        let records = RunRecordStore::new(options.state_dir.join("runs"), options.keep);
        Ok(Arc::new(Self {
            pool: SubjectName::parse(&options.pool)?,
            other_runs: OtherRunRecorder::new(history.clone(), options.state_dir.clone()),
            history,
            options,
            permits,
            records,
            run_lock: tokio::sync::Mutex::default(),
            stopping: CancellationToken::new(),
            resumed: CancellationToken::new(),
            active_runs: Mutex::default(),
            state_changes,
        }))
    }

    /// Begins a run, or finds the one with this identity. Its record is on disk when this returns. Blocks.
    pub(crate) fn begin_run(
        self: &Arc<Self>,
        request: PuppetRunRequest,
        system: &Arc<dyn System>,
    ) -> SystemResult<BeginRunResult> {
        // The mutex is held until the run is inserted, so that concurrent requests with the same identity begin only one run.
        let mut active_runs = self.active_runs();
        if let Some(found) = active_runs.get(&request.id) {
            return Ok(BeginRunResult::Active(RunWaiter::new(found), true));
        }
        if let Some(record) = self.records.read(request.id) {
            let mut outcome = record.outcome;
            outcome.attached = true;
            return Ok(BeginRunResult::Finished(Box::new(outcome)));
        }
        let outcome = PuppetRunOutcome {
            run: request.id.to_string(),
            state: PuppetRunState::WaitingLock,
            initiated_at: unix_millis(system.now()) / 1000,
            pool: Some(request.permit_parameters.pool.to_string()),
            ..PuppetRunOutcome::default()
        };
        let record = PuppetRunRecord {
            id: request.id,
            request: request.request,
            caller: request.caller.clone(),
            cause: request.cause.clone(),
            run_options: request.run_options.clone(),
            outcome: outcome.clone(),
            step: None,
            catalog: request.catalog.clone(),
            limit: request.permit_parameters.limit,
            before_replay: None,
        };
        self.records.write(&record)?;
        let active_run = ActiveRun::new(outcome, request.in_background);
        let waiter = RunWaiter::new(&active_run);
        active_runs.insert(request.id, Arc::clone(&active_run));
        drop(active_runs);
        let driver =
            RunDriver::new(Arc::clone(self), active_run, record, request, Arc::clone(system));
        tokio::spawn(driver.run_from_start());
        Ok(BeginRunResult::Active(waiter, false))
    }

    /// The most advanced run in progress or waiting.
    pub(crate) fn current_outcome(&self) -> Option<PuppetRunOutcome> {
        let active_runs = self.active_runs();
        let outcomes = active_runs.values().map(|run| run.outcome.borrow().clone());
        outcomes.max_by_key(|outcome| (!outcome.state.is_waiting(), outcome.initiated_at))
    }

    /// Whether no run is in progress or waiting.
    pub(crate) fn is_idle(&self) -> bool {
        self.active_runs().is_empty()
    }

    /// Whether a program of this agent is running.
    pub(crate) fn is_applying(&self) -> bool {
        self.current_outcome().is_some_and(|outcome| outcome.state.is_running())
    }

    /// Outcome of the run with this identity; without one, of all kept runs, newest first.
    pub(crate) fn list_outcomes(&self, id: Option<Uuid>, count: usize) -> Vec<PuppetRunOutcome> {
        let records = match id {
            Some(id) => self.records.read(id).into_iter().collect(),
            None => self.records.list(),
        };
        let active_runs = self.active_runs();
        let outcome = |record: PuppetRunRecord| match active_runs.get(&record.id) {
            Some(run) => run.outcome.borrow().clone(),
            None => record.outcome,
        };
        records.into_iter().take(count).map(outcome).collect()
    }

    /// Resumes a run that an earlier daemon began: its program may still run or may have ended.
    pub(crate) fn resume_run(
        self: &Arc<Self>,
        mut record: PuppetRunRecord,
        system: &Arc<dyn System>,
    ) {
        if !find_program(&mut record, &**system) {
            let error = "the daemon was restarted before the run started";
            record.outcome.end_without_result(PuppetRunClass::DaemonRestart, error);
            // If the write fails, the next start finds the unfinished record and ends it again.
            if let Err(error) = self.records.write(&record) {
                tracing::error!(%error, run = %record.id, "cannot store the result of the run");
            }
            return;
        }
        let active_run = ActiveRun::new(record.outcome.clone(), true);
        self.active_runs().insert(record.id, Arc::clone(&active_run));
        let driver =
            RunDriver::from_record(Arc::clone(self), active_run, record, Arc::clone(system));
        tokio::spawn(driver.resume_run());
    }

    /// Removes an ended run from the active runs; its record is kept.
    pub(crate) fn forget_run(&self, id: Uuid) {
        self.active_runs().remove(&id);
        self.state_changes.notify();
    }

    fn active_runs(&self) -> MutexGuard<'_, HashMap<Uuid, Arc<ActiveRun>>> {
        self.active_runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn engine_dir(&self) -> PathBuf {
        self.options.engine_dir.clone()
    }
}

/// Whether the program of this run was started. If the daemon was killed right after the start, finds its process; if it was killed right before,
/// restores the catalog.
fn find_program(record: &mut PuppetRunRecord, system: &dyn System) -> bool {
    let Some(step) = &mut record.step else { return false };
    if step.process.is_none() {
        step.process = ProcessSpool::find_process(&step.directory);
    }
    if step.process.is_none() {
        program::restore_catalog(system, &step.directory);
        record.step = None;
    }
    record.step.is_some()
}

impl ActiveRun {
    fn new(outcome: PuppetRunOutcome, in_background: bool) -> Arc<Self> {
        let cancel = CancellationToken::new();
        Arc::new(Self {
            outcome: watch::Sender::new(outcome),
            withdrawn: cancel.child_token(),
            cancel,
            since: Instant::now(),
            waiting: AtomicUsize::new(0),
            in_background,
        })
    }
}

impl RunWaiter {
    fn new(active_run: &Arc<ActiveRun>) -> Self {
        active_run.waiting.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(active_run))
    }

    pub(crate) fn active_run(&self) -> &ActiveRun {
        &self.0
    }

    /// Cancels the run at any stage.
    pub(crate) fn cancel_run(&self) {
        self.0.cancel.cancel();
    }

    /// Cancels the run unless it has begun.
    pub(crate) fn withdraw_run(&self) {
        self.0.withdrawn.cancel();
    }
}

impl Drop for RunWaiter {
    fn drop(&mut self) {
        let was_last = self.0.waiting.fetch_sub(1, Ordering::AcqRel) == 1;
        // A run that has started continues after its caller's deadline.
        if was_last && !self.0.in_background && self.0.outcome.borrow().state.is_waiting() {
            self.0.cancel.cancel();
        }
    }
}
