//! Drives one run from request to result: the node's lock, the fleet's permit, the program, the replay of owed refreshes.
//!
//! The order enforces the limit. The lock comes before the permit, so that no run holds a permit while it waits for its own node. The permit comes
//! before the program, so that the whole run time counts.

mod execution;
mod locking;
mod results;

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_api::base::error_chain;
use muster_api::base::unix_millis;
use muster_api::system::System;
use muster_api::wire::identity::SubjectName;
use muster_contract::puppet::{PuppetRunClass, PuppetRunOutcome, PuppetRunState};
use tokio::task::JoinError;

use crate::classification;
use crate::files::report::PuppetRunReport;
use crate::history::PuppetRunRecorder;
use crate::options::{CatalogEngine, Options};
use crate::paths::PuppetPaths;
use crate::permit::{OptionalPermit, PermitParameters};
use crate::program;
use crate::record::PuppetRunRecord;
use crate::runs::{ActiveRun, PuppetRunManager, PuppetRunRequest};
use crate::session::SessionOutcome;

/// Why a run ends without a result.
#[derive(Debug)]
pub(crate) struct RunFailure(PuppetRunClass, String);

#[derive(Debug)]
pub(crate) struct RunDriver {
    runs: Arc<PuppetRunManager>,
    /// Those of the agent, for the catalog of this run.
    options: Options,
    active_run: Arc<ActiveRun>,
    record: PuppetRunRecord,
    permit_parameters: PermitParameters,
    host: String,
    trace: Option<String>,
    system: Arc<dyn System>,
    paths: Option<PuppetPaths>,
    /// The report of the program that ended last.
    report: Option<PuppetRunReport>,
    /// The record of the program in the fleet's history.
    recorder: Option<PuppetRunRecorder>,
    /// Whether an earlier daemon started the program that is followed next.
    is_resumed: bool,
}

impl RunDriver {
    pub(crate) fn new(
        runs: Arc<PuppetRunManager>,
        active_run: Arc<ActiveRun>,
        record: PuppetRunRecord,
        request: PuppetRunRequest,
        system: Arc<dyn System>,
    ) -> Self {
        let PuppetRunRequest { permit_parameters, host, trace, .. } = request;
        let without_origin = Self::from_record(runs, active_run, record, system);
        Self { permit_parameters, host, trace, is_resumed: false, ..without_origin }
    }

    /// Creates the driver for a run whose program an earlier daemon started.
    pub(crate) fn from_record(
        runs: Arc<PuppetRunManager>,
        active_run: Arc<ActiveRun>,
        record: PuppetRunRecord,
        system: Arc<dyn System>,
    ) -> Self {
        let pool = record.outcome.pool.as_deref();
        let pool = pool.and_then(|pool| SubjectName::parse(pool).ok());
        let options = runs.options.for_catalog(record.catalog.as_ref());
        Self {
            permit_parameters: PermitParameters {
                pool: pool.unwrap_or_else(|| runs.pool.clone()),
                limit: record.limit,
                priority: 0,
                rollout: None,
                timeout: Duration::from_secs(runs.options.wait),
            },
            paths: PuppetPaths::find(&options, &*system).ok(),
            runs,
            options,
            active_run,
            record,
            host: String::new(),
            trace: None,
            system,
            report: None,
            recorder: None,
            is_resumed: true,
        }
    }

    pub(crate) async fn run_from_start(mut self) {
        let result = self.run_attempts().await;
        self.finish_run(result).await;
    }

    /// Continues a run of an earlier daemon.
    pub(crate) async fn resume_run(mut self) {
        let runs = Arc::clone(&self.runs);
        let _guard = runs.run_lock.lock().await;
        let result = self.resume_program().await;
        self.finish_run(result).await;
    }

    async fn resume_program(&mut self) -> Result<(), RunFailure> {
        let deadline = Instant::now() + self.permit_parameters.timeout;
        // Another process may have taken the lock meanwhile, and the ledger is written only under it.
        let _lock = self.acquire_lock(deadline).await?;
        // The program is already running, so its place in the pool is taken without waiting for one.
        let parameters = &self.permit_parameters;
        let permit =
            OptionalPermit::occupy_permit(&self.runs.permits, parameters, self.record.id).await;
        let result = self.follow_program(&permit).await;
        let result = self.conclude_program(result, &permit).await;
        self.release_permit(permit).await;
        result
    }

    async fn run_attempts(&mut self) -> Result<(), RunFailure> {
        let deadline = Instant::now() + self.permit_parameters.timeout;
        let runs = Arc::clone(&self.runs);
        let wait_started = Instant::now();
        let _guard = tokio::select! {
            guard = runs.run_lock.lock() => guard,
            () = self.active_run.withdrawn.cancelled() => return Err(cancelled_failure()),
            () = tokio::time::sleep_until(deadline.into()) => return Err(lock_timeout_failure("another run of this agent is in progress on the node")),
        };
        loop {
            let lock = self.acquire_lock(deadline).await?;
            self.wait_for_puppet(deadline).await?;
            self.record.outcome.waited_lock =
                wait_started.elapsed().as_secs_f64() - self.record.outcome.waited_permit;
            let attempt = match self.acquire_permit().await? {
                Some(permit) => {
                    let result = self.run_with_permit(&permit, deadline).await;
                    self.release_permit(permit).await;
                    result?
                }
                None => AttemptOutcome::Retry,
            };
            drop(lock);
            match attempt {
                AttemptOutcome::Finished => return Ok(()),
                AttemptOutcome::Retry => {
                    (self.record.outcome.fence, self.record.outcome.pool_highest) = (None, None);
                    self.record.step = None;
                    self.set_state(PuppetRunState::WaitingLock);
                }
            }
        }
    }

    /// Runs the program with lock and permit held, then a second one for the owed refreshes.
    async fn run_with_permit(
        &mut self,
        permit: &OptionalPermit,
        deadline: Instant,
    ) -> Result<AttemptOutcome, RunFailure> {
        self.record.outcome.fence = permit.fence();
        self.check_disabled()?;
        // The run may have been cancelled in the moment in which it got the permit.
        if self.active_run.withdrawn.is_cancelled() {
            return Err(cancelled_failure());
        }
        if self.options.engine == CatalogEngine::Native {
            self.run_native(permit).await?;
            return Ok(AttemptOutcome::Finished);
        }
        // A Puppet run may have been started outside while this run waited for the permit.
        if self.foreign_puppet().is_some() && Instant::now() < deadline {
            return Ok(AttemptOutcome::Retry);
        }
        self.record.outcome.started_at = Some(unix_millis(self.system.now()));
        let run_options = self.record.run_options.clone();
        self.start_program(run_options, Vec::new()).await?;
        let result = self.follow_program(permit).await;
        let was_locked = result.as_ref().is_ok_and(|session| session.was_locked);
        self.conclude_program(result, permit).await?;
        if was_locked && self.record.outcome.reason == Some(PuppetRunClass::Locked) {
            if Instant::now() >= deadline {
                return Ok(AttemptOutcome::Finished);
            }
            let outcome = &mut self.record.outcome;
            (outcome.class, outcome.reason, outcome.error) = (None, None, None);
            (outcome.started_at, outcome.exitcode) = (None, None);
            return Ok(AttemptOutcome::Retry);
        }
        Ok(AttemptOutcome::Finished)
    }

    /// Reads the result of the program, and replays what it left owed with a second program.
    async fn conclude_program(
        &mut self,
        result: Result<SessionOutcome, RunFailure>,
        permit: &OptionalPermit,
    ) -> Result<(), RunFailure> {
        self.record_session(result).await?;
        if let Some(before) = self.record.before_replay.take() {
            self.merge_replay(before);
            return Ok(());
        }
        let targets = self.replayable_targets().await?;
        if targets.is_empty() {
            return Ok(());
        }
        let before = self.record.outcome.clone();
        self.record.before_replay = Some(before.clone());
        let run_options = self.record.run_options.for_replay();
        let replayed = match self.start_program(run_options, targets).await {
            Ok(()) => self.follow_program(permit).await,
            Err(failure) => Err(failure),
        };
        self.record.before_replay = None;
        if let Err(RunFailure(reason, error)) = self.record_session(replayed).await {
            self.record.outcome.end_without_result(reason, error);
        }
        self.merge_replay(before);
        Ok(())
    }

    /// Reads the result of the program, and ends its record in the fleet's history.
    async fn record_session(
        &mut self,
        result: Result<SessionOutcome, RunFailure>,
    ) -> Result<(), RunFailure> {
        let recorder = self.recorder.take();
        let session = match result {
            Ok(session) => session,
            Err(failure) => {
                if let Some(recorder) = recorder {
                    recorder.finish(None, &failure.1);
                }
                return Err(failure);
            }
        };
        // Another run kept this one from beginning.
        let has_begun = !session.was_locked || session.had_catalog;
        let result = self.record_result(session).await;
        if let Some(recorder) = recorder.filter(|_| has_begun) {
            let problem = self.record.outcome.error.as_deref();
            recorder.finish(self.report.as_ref(), problem.unwrap_or("Puppet wrote no report"));
        }
        result
    }

    fn merge_replay(&mut self, before: PuppetRunOutcome) {
        let replay = std::mem::replace(&mut self.record.outcome, before);
        let outcome = &mut self.record.outcome;
        outcome.log.extend(replay.log);
        outcome.log.truncate(classification::MAX_LOG_LINES);
        outcome.replayed = replay.replayed;
        let failed =
            replay.failed.unwrap_or_default() + replay.failed_to_restart.unwrap_or_default();
        if replay.state == PuppetRunState::Aborted {
            (outcome.state, outcome.class) = (replay.state, replay.class);
            (outcome.reason, outcome.error) = (replay.reason, replay.error);
        } else if failed > 0 {
            outcome.failed = Some(add_counts(outcome.failed, replay.failed));
            outcome.failed_to_restart =
                Some(add_counts(outcome.failed_to_restart, replay.failed_to_restart));
            let was_changed = matches!(
                outcome.class,
                Some(PuppetRunClass::Changed | PuppetRunClass::FailedChanged)
            );
            outcome.class = Some(PuppetRunClass::from_counts(true, was_changed));
        } else if !outcome.replayed.is_empty() && outcome.class == Some(PuppetRunClass::Clean) {
            outcome.class = Some(PuppetRunClass::Changed);
        }
    }

    /// Targets of owed refreshes that another run could refresh now.
    async fn replayable_targets(&self) -> Result<Vec<String>, RunFailure> {
        let outcome = &self.record.outcome;
        let has_run = outcome.state == PuppetRunState::Finished
            && !matches!(
                outcome.class,
                Some(PuppetRunClass::CompileFailed | PuppetRunClass::StaleCatalog)
            );
        let step = self.record.step.as_ref();
        let has_replayed = step.is_some_and(|step| !step.targets.is_empty());
        let (Some(paths), true) = (self.paths.clone(), has_run && !has_replayed) else {
            return Ok(Vec::new());
        };
        if !self.record.run_options.is_unrestricted() {
            return Ok(Vec::new());
        }
        let (system, report) = (Arc::clone(&self.system), self.report.clone());
        let (options, engine) = (self.options.clone(), self.runs.engine_dir());
        run_blocking(move || {
            let path = program::catalog_path(&options, &paths, &*system)?;
            let owed = program::owed_targets(&engine);
            Some(program::replayable_targets(&*system, &path, report.as_ref(), owed))
        })
        .await
        .map(Option::unwrap_or_default)
    }

    fn puppet_state(&self) -> Vec<PathBuf> {
        let paths = self.paths.iter();
        paths.map(|paths| self.system.host_path(&paths.state_dir())).collect()
    }

    fn set_state(&mut self, state: PuppetRunState) {
        self.record.outcome.state = state;
        self.active_run.outcome.send_replace(self.record.outcome.clone());
    }

    /// Writes the result to disk, then publishes it to the waiters.
    async fn finish_run(mut self, result: Result<(), RunFailure>) {
        let outcome = &mut self.record.outcome;
        if let Err(RunFailure(reason, error)) = result {
            outcome.end_without_result(reason, error);
        }
        outcome.pending = program::owed_targets(&self.runs.engine_dir());
        if outcome.is_success() && !outcome.pending.is_empty() {
            outcome.class = Some(PuppetRunClass::Pending);
        }
        outcome.summary = Some(outcome.summary_sentence());
        self.record.step = None;
        let runs = Arc::clone(&self.runs);
        let record = self.record.clone();
        let result = tokio::task::spawn_blocking(move || {
            let result = runs.records.write(&record);
            runs.records.prune_runs();
            result
        });
        if let Ok(Err(error)) = result.await {
            tracing::error!(%error, run = %self.record.id, "cannot store the result of the run");
        }
        self.active_run.outcome.send_replace(self.record.outcome.clone());
        self.runs.forget_run(self.record.id);
        tracing::info!(run = %self.record.id, outcome = self.record.outcome.state.as_str(), class = ?self.record.outcome.class.as_ref().map(PuppetRunClass::as_str), "run ended");
    }
}

enum AttemptOutcome {
    Finished,
    /// Another Puppet run started first; try again.
    Retry,
}

/// Runs blocking disk work on a blocking thread.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, RunFailure> {
    Ok(tokio::task::spawn_blocking(work).await?)
}

fn add_counts(one: Option<u64>, other: Option<u64>) -> u64 {
    one.unwrap_or_default() + other.unwrap_or_default()
}

fn cancelled_failure() -> RunFailure {
    let error = "the request was cancelled before the run started";
    RunFailure(PuppetRunClass::Cancelled, error.to_owned())
}

fn lock_timeout_failure(reason: &str) -> RunFailure {
    RunFailure(PuppetRunClass::Locked, reason.to_owned())
}

impl From<JoinError> for RunFailure {
    fn from(error: JoinError) -> Self {
        let error = format!("the run was aborted by an internal error: {error}");
        Self(PuppetRunClass::NoReport, error)
    }
}

impl RunFailure {
    fn from_cause(class: PuppetRunClass, error: &dyn Error) -> Self {
        Self(class, error_chain(error))
    }

    fn disabled(reason: &str) -> Self {
        Self(PuppetRunClass::Disabled, classification::disabled_message(reason))
    }
}
