//! All runs of the node: one at a time, each once. Who asks for a run that goes on is told how it ends; who asks for one that
//! has ended is told how it did.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, UNIX_EPOCH};

use muster_api::system::{System, SystemError};
use muster_api::wire::identity::{NameError, SubjectName};
use muster_permits::PermitClient;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::arguments::PuppetRunOptions;
use crate::drive::RunDriver;
use crate::options::Options;
use crate::outcome::{PuppetRunOutcome, PuppetRunState, RunFailureReason};
use crate::permit::PermitParameters;
use crate::record::{PuppetRunRecord, RunRecordStore};

/// What the actions and the resident share.
#[derive(Debug)]
pub(crate) struct PuppetRunManager {
    pub(crate) options: Options,
    /// The pool that is meant when nobody names one.
    pub(crate) pool: SubjectName,
    pub(crate) desk: PermitClient,
    pub(crate) records: RunRecordStore,
    /// One run at a time, in the order in which they were asked for.
    pub(crate) turn: tokio::sync::Mutex<()>,
    /// The daemon leaves; programs go on without it.
    pub(crate) leaving: CancellationToken,
    live: Mutex<HashMap<Uuid, Arc<ActiveRun>>>,
}

/// A run that goes on.
#[derive(Debug)]
pub(crate) struct ActiveRun {
    pub(crate) outcome: watch::Sender<PuppetRunOutcome>,
    /// Nobody wants it any more.
    pub(crate) cancel: CancellationToken,
    pub(crate) since: Instant,
    waiting: AtomicUsize,
    /// Whether it goes on though nobody waits for it.
    in_background: bool,
}

/// Somebody who waits for a run. The last one who leaves a run that has not begun takes it back.
#[derive(Debug)]
pub(crate) struct RunWaiter(Arc<ActiveRun>);

/// What becomes of a request.
#[derive(Debug)]
pub(crate) enum BeginRunResult {
    /// It waits for this run; `true` if an earlier request began it.
    Waits(RunWaiter, bool),
    /// This is how it ended.
    Over(Box<PuppetRunOutcome>),
}

/// A run as it is asked for.
#[derive(Debug, Clone)]
pub(crate) struct PuppetRunRequest {
    pub(crate) id: Uuid,
    pub(crate) request: Uuid,
    pub(crate) caller: String,
    pub(crate) trace: Option<String>,
    /// The node's name.
    pub(crate) host: String,
    pub(crate) wish: PuppetRunOptions,
    pub(crate) wanted: PermitParameters,
    pub(crate) in_background: bool,
}

impl PuppetRunManager {
    pub(crate) fn new(options: Options, desk: PermitClient) -> Result<Arc<Self>, NameError> {
        let records = RunRecordStore::new(options.state_dir.join("runs"), options.keep);
        Ok(Arc::new(Self {
            pool: SubjectName::parse(&options.pool)?,
            options,
            desk,
            records,
            turn: tokio::sync::Mutex::default(),
            leaving: CancellationToken::new(),
            live: Mutex::default(),
        }))
    }

    /// Begins a run, or finds the one of this identity. It is on the disk when this returns. Blocks for that.
    pub(crate) fn begin_run(
        self: &Arc<Self>,
        asked: PuppetRunRequest,
        system: &Arc<dyn System>,
    ) -> Result<BeginRunResult, SystemError> {
        let mut live = self.active_runs();
        if let Some(found) = live.get(&asked.id) {
            return Ok(BeginRunResult::Waits(RunWaiter::new(found), true));
        }
        if let Some(record) = self.records.read(asked.id) {
            let mut outcome = record.outcome;
            outcome.attached = true;
            return Ok(BeginRunResult::Over(Box::new(outcome)));
        }
        let outcome = PuppetRunOutcome {
            run: asked.id.to_string(),
            initiated_at: unix_millis_now(&**system) / 1000,
            pool: asked.wanted.limit.map(|_| asked.wanted.pool.to_string()),
            ..PuppetRunOutcome::default()
        };
        let record = PuppetRunRecord {
            id: asked.id,
            request: asked.request,
            caller: asked.caller.clone(),
            wish: asked.wish.clone(),
            outcome: outcome.clone(),
            step: None,
            before_replay: None,
        };
        self.records.write(&record)?;
        let begun = ActiveRun::new(outcome, asked.in_background);
        let attached = RunWaiter::new(&begun);
        live.insert(asked.id, Arc::clone(&begun));
        drop(live);
        let drive = RunDriver::new(Arc::clone(self), begun, record, asked, Arc::clone(system));
        tokio::spawn(drive.run_from_start());
        Ok(BeginRunResult::Waits(attached, false))
    }

    /// The run that goes on or waits; the one that is furthest.
    pub(crate) fn current_outcome(&self) -> Option<PuppetRunOutcome> {
        let live = self.active_runs();
        let outcomes = live.values().map(|live| live.outcome.borrow().clone());
        outcomes.max_by_key(|outcome| (!outcome.state.is_waiting(), outcome.initiated_at))
    }

    /// Whether a program of ours is at work.
    pub(crate) fn is_applying(&self) -> bool {
        self.current_outcome().is_some_and(|outcome| {
            matches!(
                outcome.state,
                PuppetRunState::Starting | PuppetRunState::Applying
            )
        })
    }

    /// How the run of this identity stands; all that are kept, the newest first, when none is named.
    pub(crate) fn list_outcomes(&self, id: Option<Uuid>, count: usize) -> Vec<PuppetRunOutcome> {
        let records = match id {
            Some(id) => self.records.read(id).into_iter().collect(),
            None => self.records.list(),
        };
        let live = self.active_runs();
        let outcome = |record: PuppetRunRecord| match live.get(&record.id) {
            Some(live) => live.outcome.borrow().clone(),
            None => record.outcome,
        };
        records.into_iter().take(count).map(outcome).collect()
    }

    /// Takes up a run that an earlier daemon began: its program goes on, or has ended meanwhile.
    pub(crate) fn resume_run(
        self: &Arc<Self>,
        mut record: PuppetRunRecord,
        system: &Arc<dyn System>,
    ) {
        if record.step.is_none() {
            let error = "the daemon was started anew before the run began";
            record
                .outcome
                .end_without_result(RunFailureReason::DaemonRestart, error);
            // It is told again when it is asked for; what cannot be written is found again at the next start.
            if let Err(error) = self.records.write(&record) {
                tracing::error!(%error, run = %record.id, "the end of a run is not kept");
            }
            return;
        }
        let live = ActiveRun::new(record.outcome.clone(), true);
        self.active_runs().insert(record.id, Arc::clone(&live));
        let drive = RunDriver::from_record(Arc::clone(self), live, record, Arc::clone(system));
        tokio::spawn(drive.resume_run());
    }

    /// The run is over and kept.
    pub(crate) fn forget_run(&self, id: Uuid) {
        self.active_runs().remove(&id);
    }

    fn active_runs(&self) -> MutexGuard<'_, HashMap<Uuid, Arc<ActiveRun>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn engine_dir(&self) -> PathBuf {
        self.options.engine_dir.clone()
    }
}

impl ActiveRun {
    fn new(outcome: PuppetRunOutcome, in_background: bool) -> Arc<Self> {
        Arc::new(Self {
            outcome: watch::Sender::new(outcome),
            cancel: CancellationToken::new(),
            since: Instant::now(),
            waiting: AtomicUsize::new(0),
            in_background,
        })
    }
}

impl RunWaiter {
    fn new(live: &Arc<ActiveRun>) -> Self {
        live.waiting.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(live))
    }

    pub(crate) fn active_run(&self) -> &ActiveRun {
        &self.0
    }

    /// Takes the run back, wherever it is.
    pub(crate) fn cancel_run(&self) {
        self.0.cancel.cancel();
    }
}

impl Drop for RunWaiter {
    fn drop(&mut self) {
        let was_last = self.0.waiting.fetch_sub(1, Ordering::AcqRel) == 1;
        // A run that has begun is not torn up because a caller's time is over.
        if was_last && !self.0.in_background && self.0.outcome.borrow().state.is_waiting() {
            self.0.cancel.cancel();
        }
    }
}

/// Milliseconds since 1970.
pub(crate) fn unix_millis_now(system: &dyn System) -> u64 {
    let since = system.now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
