//! All runs of the node: one at a time, each once. Who asks for a run that goes on is told how it ends; who asks for one that
//! has ended is told how it did.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, UNIX_EPOCH};

use muster_api::system::{System, SystemError};
use muster_api::wire::identity::{Name, NameError};
use muster_permits::Desk;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::arguments::Wish;
use crate::drive::Drive;
use crate::options::Options;
use crate::outcome::{Outcome, Reason, State};
use crate::permit::Wanted;
use crate::record::{Record, Records};

/// What the actions and the resident share.
#[derive(Debug)]
pub(crate) struct Runs {
    pub(crate) options: Options,
    /// The pool that is meant when nobody names one.
    pub(crate) pool: Name,
    pub(crate) desk: Desk,
    pub(crate) records: Records,
    /// One run at a time, in the order in which they were asked for.
    pub(crate) turn: tokio::sync::Mutex<()>,
    /// The daemon leaves; programs go on without it.
    pub(crate) leaving: CancellationToken,
    live: Mutex<HashMap<Uuid, Arc<Live>>>,
}

/// A run that goes on.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) outcome: watch::Sender<Outcome>,
    /// Nobody wants it any more.
    pub(crate) cancel: CancellationToken,
    pub(crate) since: Instant,
    waiting: AtomicUsize,
    /// Whether it goes on though nobody waits for it.
    in_background: bool,
}

/// Somebody who waits for a run. The last one who leaves a run that has not begun takes it back.
#[derive(Debug)]
pub(crate) struct Attached(Arc<Live>);

/// What becomes of a request.
#[derive(Debug)]
pub(crate) enum Begun {
    /// It waits for this run; `true` if an earlier request began it.
    Waits(Attached, bool),
    /// This is how it ended.
    Over(Box<Outcome>),
}

/// A run as it is asked for.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) id: Uuid,
    pub(crate) request: Uuid,
    pub(crate) caller: String,
    pub(crate) trace: Option<String>,
    /// The node's name.
    pub(crate) host: String,
    pub(crate) wish: Wish,
    pub(crate) wanted: Wanted,
    pub(crate) in_background: bool,
}

impl Runs {
    pub(crate) fn new(options: Options, desk: Desk) -> Result<Arc<Self>, NameError> {
        let records = Records::new(options.state_dir.join("runs"), options.keep);
        Ok(Arc::new(Self {
            pool: Name::parse(&options.pool)?,
            options,
            desk,
            records,
            turn: tokio::sync::Mutex::default(),
            leaving: CancellationToken::new(),
            live: Mutex::default(),
        }))
    }

    /// Begins a run, or finds the one of this identity. It is on the disk when this returns. Blocks for that.
    pub(crate) fn begin(
        self: &Arc<Self>,
        asked: Asked,
        system: &Arc<dyn System>,
    ) -> Result<Begun, SystemError> {
        let mut live = self.live();
        if let Some(found) = live.get(&asked.id) {
            return Ok(Begun::Waits(Attached::new(found), true));
        }
        if let Some(record) = self.records.read(asked.id) {
            let mut outcome = record.outcome;
            outcome.attached = true;
            return Ok(Begun::Over(Box::new(outcome)));
        }
        let outcome = Outcome {
            run: asked.id.to_string(),
            initiated_at: millis(&**system) / 1000,
            pool: asked.wanted.limit.map(|_| asked.wanted.pool.to_string()),
            ..Outcome::default()
        };
        let record = Record {
            id: asked.id,
            request: asked.request,
            caller: asked.caller.clone(),
            wish: asked.wish.clone(),
            outcome: outcome.clone(),
            step: None,
            before_replay: None,
        };
        self.records.write(&record)?;
        let begun = Live::new(outcome, asked.in_background);
        let attached = Attached::new(&begun);
        live.insert(asked.id, Arc::clone(&begun));
        drop(live);
        let drive = Drive::new(Arc::clone(self), begun, record, asked, Arc::clone(system));
        tokio::spawn(drive.go());
        Ok(Begun::Waits(attached, false))
    }

    /// The run that goes on or waits; the one that is furthest.
    pub(crate) fn current(&self) -> Option<Outcome> {
        let live = self.live();
        let outcomes = live.values().map(|live| live.outcome.borrow().clone());
        outcomes.max_by_key(|outcome| (!outcome.state.is_waiting(), outcome.initiated_at))
    }

    /// Whether a program of ours is at work.
    pub(crate) fn is_applying(&self) -> bool {
        self.current()
            .is_some_and(|outcome| matches!(outcome.state, State::Starting | State::Applying))
    }

    /// How the run of this identity stands; all that are kept, the newest first, when none is named.
    pub(crate) fn told(&self, id: Option<Uuid>, count: usize) -> Vec<Outcome> {
        let records = match id {
            Some(id) => self.records.read(id).into_iter().collect(),
            None => self.records.list(),
        };
        let live = self.live();
        let outcome = |record: Record| match live.get(&record.id) {
            Some(live) => live.outcome.borrow().clone(),
            None => record.outcome,
        };
        records.into_iter().take(count).map(outcome).collect()
    }

    /// Takes up a run that an earlier daemon began: its program goes on, or has ended meanwhile.
    pub(crate) fn take_up(self: &Arc<Self>, mut record: Record, system: &Arc<dyn System>) {
        if record.step.is_none() {
            let error = "the daemon was started anew before the run began";
            record.outcome.give_up(Reason::DaemonRestart, error);
            // It is told again when it is asked for; what cannot be written is found again at the next start.
            if let Err(error) = self.records.write(&record) {
                tracing::error!(%error, run = %record.id, "the end of a run is not kept");
            }
            return;
        }
        let live = Live::new(record.outcome.clone(), true);
        self.live().insert(record.id, Arc::clone(&live));
        let drive = Drive::taken_up(Arc::clone(self), live, record, Arc::clone(system));
        tokio::spawn(drive.go_on());
    }

    /// The run is over and kept.
    pub(crate) fn forget(&self, id: Uuid) {
        self.live().remove(&id);
    }

    fn live(&self) -> MutexGuard<'_, HashMap<Uuid, Arc<Live>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn engine_dir(&self) -> PathBuf {
        self.options.engine_dir.clone()
    }
}

impl Live {
    fn new(outcome: Outcome, in_background: bool) -> Arc<Self> {
        Arc::new(Self {
            outcome: watch::Sender::new(outcome),
            cancel: CancellationToken::new(),
            since: Instant::now(),
            waiting: AtomicUsize::new(0),
            in_background,
        })
    }
}

impl Attached {
    fn new(live: &Arc<Live>) -> Self {
        live.waiting.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(live))
    }

    pub(crate) fn live(&self) -> &Live {
        &self.0
    }

    /// Takes the run back, wherever it is.
    pub(crate) fn cancel(&self) {
        self.0.cancel.cancel();
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let was_last = self.0.waiting.fetch_sub(1, Ordering::AcqRel) == 1;
        // A run that has begun is not torn up because a caller's time is over.
        if was_last && !self.0.in_background && self.0.outcome.borrow().state.is_waiting() {
            self.0.cancel.cancel();
        }
    }
}

/// Milliseconds since 1970.
pub(crate) fn millis(system: &dyn System) -> u64 {
    let since = system.now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
