//! One run from its asking to its end: the node's lock, the fleet's permit, the program, what it left owed, the result.
//!
//! The order is what makes the limit hold: the lock comes before the permit, so that nobody holds a permit and waits for his own
//! node; and the permit comes before the program, so that its first second counts too.

mod turn;
mod work;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_api::system::System;
use muster_api::wire::identity::Name;
use muster_engine::lock;
use tokio::task::JoinError;

use crate::files::look;
use crate::files::report::Report;
use crate::files::summary::Summary;
use crate::options::Engine;
use crate::outcome::{Outcome, Reason, State};
use crate::permit::{Room, Wanted};
use crate::places::{self, Places};
use crate::program;
use crate::record::Record;
use crate::runs::{Asked, Live, Runs, millis};
use crate::session::Ended;
use crate::verdict::{self, Evidence};

/// Why a run ends here, without a result.
#[derive(Debug)]
pub(crate) struct GivenUp(Reason, String);

/// A run at work.
#[derive(Debug)]
pub(crate) struct Drive {
    runs: Arc<Runs>,
    live: Arc<Live>,
    record: Record,
    wanted: Wanted,
    host: String,
    trace: Option<String>,
    system: Arc<dyn System>,
    places: Option<Places>,
    /// The report of the program that ended last.
    report: Option<Report>,
}

impl Drive {
    pub(crate) fn new(
        runs: Arc<Runs>,
        live: Arc<Live>,
        record: Record,
        asked: Asked,
        system: Arc<dyn System>,
    ) -> Self {
        let places = Places::find(&runs.options, &*system).ok();
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

    /// A run whose program an earlier daemon started.
    pub(crate) fn taken_up(
        runs: Arc<Runs>,
        live: Arc<Live>,
        record: Record,
        system: Arc<dyn System>,
    ) -> Self {
        let pool = record.outcome.pool.as_deref();
        let pool = pool.and_then(|pool| Name::parse(pool).ok());
        let wanted = Wanted {
            pool: pool.unwrap_or_else(|| runs.pool.clone()),
            limit: None,
            priority: 0,
            patience: Duration::from_secs(runs.options.wait),
        };
        let places = Places::find(&runs.options, &*system).ok();
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

    /// From the beginning.
    pub(crate) async fn go(mut self) {
        if let Err(GivenUp(reason, error)) = self.whole().await {
            self.record.outcome.give_up(reason, error);
        }
        self.close().await;
    }

    /// From where an earlier daemon left it.
    pub(crate) async fn go_on(mut self) {
        let runs = Arc::clone(&self.runs);
        let _turn = runs.turn.lock().await;
        let until = Instant::now() + self.wanted.patience;
        // Others may have taken the lock meanwhile; the ledger is written under it alone.
        let lock = match self.lock(until).await {
            Ok(lock) => lock,
            Err(GivenUp(reason, error)) => {
                self.record.outcome.give_up(reason, error);
                self.close().await;
                return;
            }
        };
        let room = match self.record.outcome.fence {
            Some(_) => Room::occupy(&runs.desk, &self.wanted.pool, self.record.id).await,
            None => Room::default(),
        };
        let ended = self.follow(&room).await;
        if let Err(GivenUp(reason, error)) = self.conclude(ended, &room).await {
            self.record.outcome.give_up(reason, error);
        }
        self.leave(room).await;
        drop(lock);
        self.close().await;
    }

    async fn whole(&mut self) -> Result<(), GivenUp> {
        let until = Instant::now() + self.wanted.patience;
        let runs = Arc::clone(&self.runs);
        let waited = Instant::now();
        let _turn = tokio::select! {
            turn = runs.turn.lock() => turn,
            () = self.live.cancel.cancelled() => return Err(cancelled()),
            () = tokio::time::sleep_until(until.into()) => return Err(too_long("another run of ours goes on here")),
        };
        loop {
            let lock = self.lock(until).await?;
            self.quiet(until).await?;
            self.record.outcome.waited_lock =
                waited.elapsed().as_secs_f64() - self.record.outcome.waited_permit;
            let room = self.enter().await?;
            let done = self.under_permit(&room, until).await;
            self.leave(room).await;
            drop(lock);
            match done? {
                Done::Over => return Ok(()),
                Done::Again => {
                    self.record.outcome.fence = None;
                    self.record.step = None;
                    self.state(State::WaitingLock);
                }
            }
        }
    }

    /// With lock and permit: the program, and another one for what is owed.
    async fn under_permit(&mut self, room: &Room, until: Instant) -> Result<Done, GivenUp> {
        self.record.outcome.fence = room.fence();
        self.check_disabled()?;
        if self.runs.options.engine == Engine::Native {
            self.native(room).await?;
            return Ok(Done::Over);
        }
        // While the permit was waited for, somebody else may have begun.
        if self.foreign().is_some() && Instant::now() < until {
            return Ok(Done::Again);
        }
        self.record.outcome.started_at = Some(millis(&*self.system));
        let wish = self.record.wish.clone();
        self.start(wish, Vec::new()).await?;
        let ended = self.follow(room).await;
        let was_locked = ended.as_ref().is_ok_and(|ended| ended.was_locked);
        self.conclude(ended, room).await?;
        if was_locked && self.record.outcome.reason.as_deref() == Some(Reason::Locked.word()) {
            if Instant::now() >= until {
                return Ok(Done::Over);
            }
            let outcome = &mut self.record.outcome;
            (outcome.class, outcome.reason, outcome.error) = (None, None, None);
            (outcome.started_at, outcome.exitcode) = (None, None);
            return Ok(Done::Again);
        }
        Ok(Done::Over)
    }

    /// What the program left: its result; and then what it left owed, by another one.
    async fn conclude(
        &mut self,
        ended: Result<Ended, GivenUp>,
        room: &Room,
    ) -> Result<(), GivenUp> {
        self.judge(ended?).await?;
        if let Some(before) = self.record.before_replay.take() {
            self.merge(before);
            return Ok(());
        }
        let targets = self.payable().await?;
        if targets.is_empty() {
            return Ok(());
        }
        let before = self.record.outcome.clone();
        self.record.before_replay = Some(before.clone());
        let wish = self.record.wish.replay();
        let replayed = match self.start(wish, targets).await {
            Ok(()) => self.follow(room).await,
            Err(given_up) => Err(given_up),
        };
        self.record.before_replay = None;
        match replayed {
            Ok(ended) => self.judge(ended).await?,
            Err(GivenUp(reason, error)) => self.record.outcome.give_up(reason, error),
        }
        self.merge(before);
        Ok(())
    }

    /// The result of a run, and of the one that paid what it left owed.
    fn merge(&mut self, before: Outcome) {
        let replay = std::mem::replace(&mut self.record.outcome, before);
        let outcome = &mut self.record.outcome;
        outcome.log.extend(replay.log);
        outcome.log.truncate(verdict::LOG);
        outcome.replayed = replay.replayed;
        let failed =
            replay.failed.unwrap_or_default() + replay.failed_to_restart.unwrap_or_default();
        if replay.state == State::Aborted {
            (outcome.state, outcome.class) = (replay.state, replay.class);
            (outcome.reason, outcome.error) = (replay.reason, replay.error);
        } else if failed > 0 {
            outcome.failed = Some(add(outcome.failed, replay.failed));
            outcome.failed_to_restart =
                Some(add(outcome.failed_to_restart, replay.failed_to_restart));
            let was_changed =
                matches!(outcome.class.as_deref(), Some("changed" | "failed+changed"));
            let class = if was_changed {
                "failed+changed"
            } else {
                "failed"
            };
            outcome.class = Some(class.to_owned());
        } else if !outcome.replayed.is_empty() && outcome.class.as_deref() == Some("clean") {
            outcome.class = Some("changed".to_owned());
        }
    }

    async fn judge(&mut self, ended: Ended) -> Result<(), GivenUp> {
        let step = self.record.step.clone();
        let (system, places) = (Arc::clone(&self.system), self.places.clone());
        let engine = self.runs.engine_dir();
        // The clock of the summary counts whole seconds: a summary of the second in which we began is that of an earlier run.
        let timeout = self.runs.options.timeout.saturating_mul(1000);
        let begun = step.as_ref().map(|step| step.until.saturating_sub(timeout));
        let since = begun.map(|at| at / 1000 + 1);
        let read = move || {
            let step = step?;
            program::restore(&*system, &step.directory);
            let owed = program::owed(&engine);
            let paid = |target: &String| !owed.contains(target);
            let paid: Vec<String> = step.targets.into_iter().filter(paid).collect();
            let places = places?;
            let report = program::report(&*system, &places);
            let report = report.filter(|report| Some(report.mark()) != step.mark);
            let summary = look::summary(&*system, &places).ok().flatten();
            let is_ours = |summary: &Summary| summary.last_run() >= since;
            Some((paid, report, summary.filter(is_ours)))
        };
        let (paid, report, summary) = blocking(read).await?.unwrap_or_default();
        self.record.outcome.replayed = paid;
        self.report.clone_from(&report);
        let evidence = Evidence {
            report,
            summary,
            exit: ended.exit,
            stopped: ended.stopped,
            disabled: lock::disabled(&self.puppet_state()),
            log: ended.log,
            was_locked: ended.was_locked,
        };
        verdict::judge(&mut self.record.outcome, &evidence);
        Ok(())
    }

    /// Who is owed a refresh that another run could make now.
    async fn payable(&self) -> Result<Vec<String>, GivenUp> {
        let outcome = &self.record.outcome;
        let class = outcome.class.as_deref();
        let has_run = outcome.state == State::Finished
            && !matches!(class, Some("compile_failed" | "stale_catalog"));
        let step = self.record.step.as_ref();
        let has_paid = step.is_some_and(|step| !step.targets.is_empty());
        let (Some(places), true) = (self.places.clone(), has_run && !has_paid) else {
            return Ok(Vec::new());
        };
        if !self.record.wish.is_whole() {
            return Ok(Vec::new());
        }
        let (system, report) = (Arc::clone(&self.system), self.report.clone());
        let (options, engine) = (self.runs.options.clone(), self.runs.engine_dir());
        blocking(move || {
            let path = program::catalog_path(&options, &places, &*system)?;
            let owed = program::owed(&engine);
            Some(program::payable(&*system, &path, report.as_ref(), owed))
        })
        .await
        .map(Option::unwrap_or_default)
    }

    fn puppet_state(&self) -> Vec<PathBuf> {
        let places = self.places.iter();
        places
            .map(|places| places::on_host(&*self.system, &places.state()))
            .collect()
    }

    fn state(&mut self, state: State) {
        self.record.outcome.state = state;
        self.live.outcome.send_replace(self.record.outcome.clone());
    }

    /// The result, on the disk and then to whoever waits for it.
    async fn close(mut self) {
        let outcome = &mut self.record.outcome;
        outcome.pending = program::owed(&self.runs.engine_dir());
        if outcome.class.as_deref() == Some("clean") && !outcome.pending.is_empty() {
            outcome.class = Some("pending".to_owned());
        }
        outcome.summary = Some(outcome.sentence());
        self.record.step = None;
        let runs = Arc::clone(&self.runs);
        let record = self.record.clone();
        let kept = tokio::task::spawn_blocking(move || {
            let kept = runs.records.write(&record);
            runs.records.tidy();
            kept
        });
        if let Ok(Err(error)) = kept.await {
            tracing::error!(%error, run = %self.record.id, "the result of a run is not kept");
        }
        self.live.outcome.send_replace(self.record.outcome.clone());
        self.runs.forget(self.record.id);
        tracing::info!(run = %self.record.id, outcome = self.record.outcome.state.word(), class = ?self.record.outcome.class, "a run ended");
    }
}

/// What becomes of a run that had its permit.
enum Done {
    Over,
    /// Somebody else was quicker.
    Again,
}

/// Work that waits for the disk, on a thread for that.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, GivenUp> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| broken(&error))
}

fn add(one: Option<u64>, other: Option<u64>) -> u64 {
    one.unwrap_or_default() + other.unwrap_or_default()
}

fn cancelled() -> GivenUp {
    let error = "the request was taken back before the run began";
    GivenUp(Reason::Cancelled, error.to_owned())
}

fn too_long(held: &str) -> GivenUp {
    GivenUp(Reason::Locked, held.to_owned())
}

fn broken(error: &JoinError) -> GivenUp {
    GivenUp(Reason::NoReport, format!("the run broke off: {error}"))
}
