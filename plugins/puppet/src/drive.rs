//! Drives one run from request to result: the node's lock, the fleet's permit, the program, the replay of owed refreshes.
//!
//! The order enforces the limit. The lock comes before the permit, so that no run holds a permit while it waits for its own node. The permit comes
//! before the program, so that the whole run time counts.

mod execution;
mod locking;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_api::system::System;
use muster_api::wire::identity::SubjectName;
use muster_contract::puppet::{PuppetRunClass, PuppetRunOutcome, PuppetRunState};
use muster_engine::lock;
use tokio::task::JoinError;

use crate::classification::{self, RunEvidence};
use crate::files::activity;
use crate::files::report::PuppetRunReport;
use crate::files::summary::PuppetRunSummary;
use crate::options::CatalogEngine;
use crate::paths::{self, PuppetPaths};
use crate::permit::{OptionalPermit, PermitParameters};
use crate::program;
use crate::record::PuppetRunRecord;
use crate::runs::{ActiveRun, PuppetRunManager, PuppetRunRequest, unix_millis_now};
use crate::session::SessionOutcome;

/// Why a run ends without a result.
#[derive(Debug)]
pub(crate) struct RunFailure(PuppetRunClass, String);

/// A run in progress.
#[derive(Debug)]
pub(crate) struct RunDriver {
    runs: Arc<PuppetRunManager>,
    live: Arc<ActiveRun>,
    record: PuppetRunRecord,
    wanted: PermitParameters,
    host: String,
    trace: Option<String>,
    system: Arc<dyn System>,
    places: Option<PuppetPaths>,
    /// The report of the program that ended last.
    report: Option<PuppetRunReport>,
}

impl RunDriver {
    pub(crate) fn new(
        runs: Arc<PuppetRunManager>,
        live: Arc<ActiveRun>,
        record: PuppetRunRecord,
        asked: PuppetRunRequest,
        system: Arc<dyn System>,
    ) -> Self {
        let places = PuppetPaths::find(&runs.options, &*system).ok();
        Self {
            runs,
            live,
            record,
            wanted: asked.wanted,
            host: asked.host,
            trace: asked.trace,
            system,
            places,
            report: None,
        }
    }

    /// Creates the driver for a run whose program an earlier daemon started.
    pub(crate) fn from_record(
        runs: Arc<PuppetRunManager>,
        live: Arc<ActiveRun>,
        record: PuppetRunRecord,
        system: Arc<dyn System>,
    ) -> Self {
        let pool = record.outcome.pool.as_deref();
        let pool = pool.and_then(|pool| SubjectName::parse(pool).ok());
        let wanted = PermitParameters {
            pool: pool.unwrap_or_else(|| runs.pool.clone()),
            limit: None,
            priority: 0,
            patience: Duration::from_secs(runs.options.wait),
        };
        let places = PuppetPaths::find(&runs.options, &*system).ok();
        Self {
            runs,
            live,
            record,
            wanted,
            host: String::new(),
            trace: None,
            system,
            places,
            report: None,
        }
    }

    /// Runs from the beginning.
    pub(crate) async fn run_from_start(mut self) {
        if let Err(RunFailure(reason, error)) = self.run_attempts().await {
            self.record.outcome.end_without_result(reason, error);
        }
        self.finish_run().await;
    }

    /// Continues a run of an earlier daemon.
    pub(crate) async fn resume_run(mut self) {
        let runs = Arc::clone(&self.runs);
        let _turn = runs.turn.lock().await;
        let until = Instant::now() + self.wanted.patience;
        // Another process may have taken the lock meanwhile, and the ledger is written only under it.
        let lock = match self.acquire_lock(until).await {
            Ok(lock) => lock,
            Err(RunFailure(reason, error)) => {
                self.record.outcome.end_without_result(reason, error);
                self.finish_run().await;
                return;
            }
        };
        // The program is already running, so its place in the pool is taken without waiting for one.
        let room = match self.record.outcome.fence {
            Some(_) => {
                OptionalPermit::occupy_permit(&runs.desk, &self.wanted.pool, self.record.id).await
            }
            None => OptionalPermit::default(),
        };
        let ended = self.follow_program(&room).await;
        if let Err(RunFailure(reason, error)) = self.conclude_program(ended, &room).await {
            self.record.outcome.end_without_result(reason, error);
        }
        self.release_permit(room).await;
        drop(lock);
        self.finish_run().await;
    }

    async fn run_attempts(&mut self) -> Result<(), RunFailure> {
        let until = Instant::now() + self.wanted.patience;
        let runs = Arc::clone(&self.runs);
        let waited = Instant::now();
        let _turn = tokio::select! {
            turn = runs.turn.lock() => turn,
            () = self.live.cancel.cancelled() => return Err(cancelled_failure()),
            () = tokio::time::sleep_until(until.into()) => return Err(lock_timeout_failure("another run of this agent is in progress on the node")),
        };
        loop {
            let lock = self.acquire_lock(until).await?;
            self.wait_for_puppet(until).await?;
            self.record.outcome.waited_lock =
                waited.elapsed().as_secs_f64() - self.record.outcome.waited_permit;
            let room = self.acquire_permit().await?;
            let done = self.run_with_permit(&room, until).await;
            self.release_permit(room).await;
            drop(lock);
            match done? {
                AttemptOutcome::Over => return Ok(()),
                AttemptOutcome::Again => {
                    self.record.outcome.fence = None;
                    self.record.step = None;
                    self.set_state(PuppetRunState::WaitingLock);
                }
            }
        }
    }

    /// Runs the program with lock and permit held, then a second one for the owed refreshes.
    async fn run_with_permit(
        &mut self,
        room: &OptionalPermit,
        until: Instant,
    ) -> Result<AttemptOutcome, RunFailure> {
        self.record.outcome.fence = room.fence();
        self.check_disabled()?;
        if self.runs.options.engine == CatalogEngine::Native {
            self.run_native(room).await?;
            return Ok(AttemptOutcome::Over);
        }
        // A Puppet run may have been started outside while this run waited for the permit.
        if self.foreign_puppet().is_some() && Instant::now() < until {
            return Ok(AttemptOutcome::Again);
        }
        self.record.outcome.started_at = Some(unix_millis_now(&*self.system));
        let wish = self.record.wish.clone();
        self.start_program(wish, Vec::new()).await?;
        let ended = self.follow_program(room).await;
        let was_locked = ended.as_ref().is_ok_and(|ended| ended.was_locked);
        self.conclude_program(ended, room).await?;
        if was_locked && self.record.outcome.reason == Some(PuppetRunClass::Locked) {
            if Instant::now() >= until {
                return Ok(AttemptOutcome::Over);
            }
            let outcome = &mut self.record.outcome;
            (outcome.class, outcome.reason, outcome.error) = (None, None, None);
            (outcome.started_at, outcome.exitcode) = (None, None);
            return Ok(AttemptOutcome::Again);
        }
        Ok(AttemptOutcome::Over)
    }

    /// Reads the result of the program, and replays what it left owed with a second program.
    async fn conclude_program(
        &mut self,
        ended: Result<SessionOutcome, RunFailure>,
        room: &OptionalPermit,
    ) -> Result<(), RunFailure> {
        self.record_result(ended?).await?;
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
        let wish = self.record.wish.for_replay();
        let replayed = match self.start_program(wish, targets).await {
            Ok(()) => self.follow_program(room).await,
            Err(given_up) => Err(given_up),
        };
        self.record.before_replay = None;
        match replayed {
            Ok(ended) => self.record_result(ended).await?,
            Err(RunFailure(reason, error)) => self.record.outcome.end_without_result(reason, error),
        }
        self.merge_replay(before);
        Ok(())
    }

    /// Merges the result of the run with that of its replay.
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
            outcome.failed_to_restart = Some(add_counts(
                outcome.failed_to_restart,
                replay.failed_to_restart,
            ));
            let was_changed = matches!(
                outcome.class,
                Some(PuppetRunClass::Changed | PuppetRunClass::FailedChanged)
            );
            outcome.class = Some(PuppetRunClass::from_counts(true, was_changed));
        } else if !outcome.replayed.is_empty() && outcome.class == Some(PuppetRunClass::Clean) {
            outcome.class = Some(PuppetRunClass::Changed);
        }
    }

    async fn record_result(&mut self, ended: SessionOutcome) -> Result<(), RunFailure> {
        let step = self.record.step.clone();
        let (system, places) = (Arc::clone(&self.system), self.places.clone());
        let engine = self.runs.engine_dir();
        // The summary's time has whole seconds. A summary from the second in which this program began may be that of an earlier run.
        let timeout = self.runs.options.timeout.saturating_mul(1000);
        let begun = step.as_ref().map(|step| step.until.saturating_sub(timeout));
        let since = begun.map(|at| at / 1000 + 1);
        let read = move || {
            let step = step?;
            program::restore_catalog(&*system, &step.directory);
            let owed = program::owed_targets(&engine);
            let paid = |target: &String| !owed.contains(target);
            let paid: Vec<String> = step.targets.into_iter().filter(paid).collect();
            let places = places?;
            let report = program::wait_for_report(&*system, &places);
            let report = report.filter(|report| Some(report.report_identity()) != step.mark);
            let summary = activity::read_summary(&*system, &places).ok().flatten();
            let is_ours = |summary: &PuppetRunSummary| summary.last_run() >= since;
            Some((paid, report, summary.filter(is_ours)))
        };
        let (paid, report, summary) = run_blocking(read).await?.unwrap_or_default();
        self.record.outcome.replayed = paid;
        self.report.clone_from(&report);
        let evidence = RunEvidence {
            report,
            summary,
            exit: ended.exit,
            stopped: ended.stopped,
            disabled: lock::disabled_reason(&self.puppet_state()),
            log: ended.log,
            was_locked: ended.was_locked,
        };
        classification::record_result(&mut self.record.outcome, &evidence);
        Ok(())
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
        let has_paid = step.is_some_and(|step| !step.targets.is_empty());
        let (Some(places), true) = (self.places.clone(), has_run && !has_paid) else {
            return Ok(Vec::new());
        };
        if !self.record.wish.is_unrestricted() {
            return Ok(Vec::new());
        }
        let (system, report) = (Arc::clone(&self.system), self.report.clone());
        let (options, engine) = (self.runs.options.clone(), self.runs.engine_dir());
        run_blocking(move || {
            let path = program::catalog_path(&options, &places, &*system)?;
            let owed = program::owed_targets(&engine);
            Some(program::replayable_targets(
                &*system,
                &path,
                report.as_ref(),
                owed,
            ))
        })
        .await
        .map(Option::unwrap_or_default)
    }

    fn puppet_state(&self) -> Vec<PathBuf> {
        let places = self.places.iter();
        places
            .map(|places| paths::host_path(&*self.system, &places.state_dir()))
            .collect()
    }

    fn set_state(&mut self, state: PuppetRunState) {
        self.record.outcome.state = state;
        self.live.outcome.send_replace(self.record.outcome.clone());
    }

    /// Writes the result to disk, then publishes it to the waiters.
    async fn finish_run(mut self) {
        let outcome = &mut self.record.outcome;
        outcome.pending = program::owed_targets(&self.runs.engine_dir());
        if outcome.class == Some(PuppetRunClass::Clean) && !outcome.pending.is_empty() {
            outcome.class = Some(PuppetRunClass::Pending);
        }
        outcome.summary = Some(outcome.summary_sentence());
        self.record.step = None;
        let runs = Arc::clone(&self.runs);
        let record = self.record.clone();
        let kept = tokio::task::spawn_blocking(move || {
            let kept = runs.records.write(&record);
            runs.records.prune_runs();
            kept
        });
        if let Ok(Err(error)) = kept.await {
            tracing::error!(%error, run = %self.record.id, "cannot store the result of the run");
        }
        self.live.outcome.send_replace(self.record.outcome.clone());
        self.runs.forget_run(self.record.id);
        tracing::info!(run = %self.record.id, outcome = self.record.outcome.state.as_str(), class = ?self.record.outcome.class.as_ref().map(PuppetRunClass::as_str), "run ended");
    }
}

/// Result of one attempt with a permit.
enum AttemptOutcome {
    Over,
    /// Another Puppet run started first; try again.
    Again,
}

/// Runs blocking disk work on a blocking thread.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, RunFailure> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| join_failure(&error))
}

fn add_counts(one: Option<u64>, other: Option<u64>) -> u64 {
    one.unwrap_or_default() + other.unwrap_or_default()
}

fn cancelled_failure() -> RunFailure {
    let error = "the request was cancelled before the run started";
    RunFailure(PuppetRunClass::Cancelled, error.to_owned())
}

fn lock_timeout_failure(held: &str) -> RunFailure {
    RunFailure(PuppetRunClass::Locked, held.to_owned())
}

fn join_failure(error: &JoinError) -> RunFailure {
    RunFailure(
        PuppetRunClass::NoReport,
        format!("the run was aborted by an internal error: {error}"),
    )
}
