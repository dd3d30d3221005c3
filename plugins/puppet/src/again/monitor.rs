//! The task that accepts requests, waits, and begins runs. The planner decides; this file reads and writes.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use muster_api::base::error_chain;
use muster_api::system::{System, SystemError};
use muster_api::wire::Millis;
use muster_api::{NodeHandle, StateChanges, StateSource};

use crate::PuppetRunHandle;
use serde_json::{Map, Value, json};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::again::barrier::{MissingNodes, waiting_barriers};
use crate::again::budget::FleetBudget;
use crate::again::clock::SteadyClock;
use crate::again::driver::RunDriver;
use crate::again::journal::AgainJournal;
use crate::again::plan::event::AgainEvent;
use crate::again::plan::state::{AgainState, StoredAgainEvent};
use crate::again::policy::AgainPolicy;
use crate::again::spool::RequestSpool;

/// Pause before the journal is opened again after an error.
const OPEN_RETRY: Duration = Duration::from_secs(10);

/// The runs that are asked for on this node. Clones share them.
#[derive(Debug, Clone)]
pub struct AgainMonitor(pub(crate) Arc<MonitorInner>);

/// What the task and the actions share.
#[derive(Debug)]
pub(crate) struct MonitorInner {
    pub(crate) policy: AgainPolicy,
    pub(crate) directory: PathBuf,
    pub(crate) spool: RequestSpool,
    pub(crate) puppet: PuppetRunHandle,
    pub(crate) budget: FleetBudget,
    pub(crate) clock: SteadyClock,
    /// `None` until the task has opened it.
    journal: Mutex<Option<AgainJournal>>,
    /// Why the due run has not begun yet.
    pub(crate) waiting: Mutex<Option<String>>,
    /// The nodes that conditions wait for.
    pub(crate) missing: MissingNodes,
    pub(crate) wake: Notify,
    /// Notified when there is a fleet event to publish.
    pub(crate) events: Notify,
    problems: watch::Sender<Vec<String>>,
    /// Notified when the journal has changed.
    state_changes: StateChanges,
}

#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The task has not opened it yet.
    #[error(
        "the journal of `again` is not open: the daemon is starting, or cannot read it; see its log"
    )]
    NotOpen,
    #[error("cannot write the journal of `again`")]
    Write(#[from] SystemError),
}

#[derive(Debug)]
pub struct AgainMonitorParts {
    pub policy: AgainPolicy,
    pub directory: PathBuf,
    /// Begins and observes runs.
    pub puppet: PuppetRunHandle,
    pub budget: FleetBudget,
    pub clock: SteadyClock,
    /// Notified when the state of the agent has changed.
    pub state_changes: StateChanges,
}

impl AgainMonitor {
    /// Puts a monitor together. Reads and writes nothing.
    pub fn new(parts: AgainMonitorParts) -> Self {
        let AgainMonitorParts { policy, directory, puppet, budget, clock, state_changes } = parts;
        Self(Arc::new(MonitorInner {
            policy,
            spool: RequestSpool::new(&directory),
            directory,
            puppet,
            budget,
            clock,
            journal: Mutex::default(),
            waiting: Mutex::default(),
            missing: MissingNodes::default(),
            wake: Notify::new(),
            events: Notify::new(),
            problems: watch::Sender::default(),
            state_changes,
        }))
    }

    /// A run that was begun continues without the daemon.
    pub async fn run(
        self,
        node: Arc<dyn NodeHandle>,
        system: Arc<dyn System>,
        stop: CancellationToken,
    ) {
        while !self.open_journal().await {
            tokio::select! {
                () = tokio::time::sleep(OPEN_RETRY) => {}
                () = stop.cancelled() => return,
            }
        }
        let inner = Arc::clone(&self.0);
        RunDriver::new(inner, node.identity().to_string(), system).run(stop).await;
    }

    async fn open_journal(&self) -> bool {
        let inner = Arc::clone(&self.0);
        let opened = tokio::task::spawn_blocking(move || {
            AgainJournal::open(&inner.directory, inner.policy.clone())
        });
        let journal = match opened.await {
            Ok(Ok(journal)) => journal,
            Ok(Err(error)) => {
                let error = error_chain(&error);
                tracing::error!(error, "cannot open the journal of `again`; trying again");
                self.0.problems.send_replace(vec![error]);
                return false;
            }
            Err(_) => return false,
        };
        for warning in journal.warnings() {
            tracing::warn!(warning, "the journal of `again` is damaged");
        }
        self.0.problems.send_replace(journal.warnings().to_vec());
        *self.0.lock_journal() = Some(journal);
        self.0.events.notify_one();
        true
    }

    pub fn problems(&self) -> watch::Receiver<Vec<String>> {
        self.0.problems.subscribe()
    }

    /// Waits until there may be an event to publish.
    pub async fn wait_for_event(&self) {
        self.0.events.notified().await;
    }

    /// The events that were not published yet, oldest first.
    pub fn unpublished_events(&self) -> Vec<StoredAgainEvent> {
        self.0.state().map(|state| state.events.into()).unwrap_or_default()
    }

    /// Removes events that the broker has received.
    pub async fn confirm_events(&self, published: &[Uuid]) {
        let (inner, ids) = (Arc::clone(&self.0), published.to_vec());
        let written =
            tokio::task::spawn_blocking(move || inner.record(&AgainEvent::Published { ids }));
        if let Ok(Err(error)) = written.await {
            let error = error_chain(&error);
            tracing::warn!(error, "published events may be published again");
        }
    }
}

impl MonitorInner {
    fn lock_journal(&self) -> std::sync::MutexGuard<'_, Option<AgainJournal>> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state now; `None` before the journal is open.
    pub(crate) fn state(&self) -> Option<AgainState> {
        self.lock_journal().as_ref().map(|journal| journal.state().clone())
    }

    /// Reads the state without a copy.
    pub(crate) fn with_state<T>(&self, read: impl FnOnce(&AgainState) -> T) -> Option<T> {
        self.lock_journal().as_ref().map(|journal| read(journal.state()))
    }

    /// Writes an event to the journal and applies it. Blocks on the disk.
    pub(crate) fn record(&self, event: &AgainEvent) -> Result<(), JournalError> {
        let mut journal = self.lock_journal();
        let journal = journal.as_mut().ok_or(JournalError::NotOpen)?;
        let before = journal.state().event_count;
        journal.record(event)?;
        self.state_changes.notify();
        if journal.state().event_count != before {
            self.events.notify_one();
        }
        Ok(())
    }

    /// Sets or clears why the due run has not begun.
    pub(crate) fn set_waiting(&self, reason: Option<String>) {
        *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) = reason;
    }

    /// Why the due run has not begun.
    pub(crate) fn waiting(&self) -> Option<String> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn now(&self) -> Millis {
        self.clock.now()
    }
}

impl StateSource for AgainMonitor {
    fn name(&self) -> &'static str {
        "again"
    }

    fn read_state(&self, _: &dyn System) -> Option<Map<String, Value>> {
        let state = self.0.with_state(|state| {
            let flags =
                (state.pending.is_some(), state.running.is_some(), state.oscillating.is_some());
            (flags, state.pending.as_ref().map(waiting_barriers).unwrap_or_default())
        });
        let ((pending, running, oscillating), barriers) = state?;
        // An idle node has no such state, so that its record is not published again when the journal has been read.
        if !(pending || running || oscillating) {
            return None;
        }
        let fields = [("pending", pending), ("running", running), ("oscillating", oscillating)];
        let mut state: Map<String, Value> =
            fields.map(|(name, value)| (name.to_owned(), json!(value))).into_iter().collect();
        if !barriers.is_empty() {
            // The directory evaluates them.
            state.insert("barriers".to_owned(), json!(barriers));
        }
        Some(state)
    }
}
