//! Runs the scheduled checks of a node, for the lifetime of the daemon and without a broker.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use muster_api::base::{error_chain, unix_millis_now};
use muster_api::system::System;
use muster_api::system::command::CancelFlag;
use muster_api::wire::Millis;
use muster_api::{NodeHandle, StateChanges, StateSource};
use muster_contract::nrpe::{CHECKS_STATE_NAME, RecordedCheck, ScheduledCheckRow};
use serde_json::{Map, Value};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::check_book::StoredCheckEvent;
use super::describe::{CheckView, record_checks};
use super::monitor_state::{MonitorState, POLL_INTERVAL, WriteUrgency};
use super::orphans::end_orphans;
use super::schedule_file::ScheduledCheck;
use super::schedule_table::ScheduleTable;
use super::state_file::StateFile;
use crate::nrpe::check_runner::{CheckRunner, ScheduledRun};

/// The scheduled checks of a node. Clones share them.
#[derive(Debug, Clone)]
pub struct CheckMonitor(Arc<MonitorInner>);

#[derive(Debug)]
struct MonitorInner {
    runner: CheckRunner,
    directory: PathBuf,
    file: StateFile,
    state: Mutex<MonitorState>,
    /// Held while the file is written, so that an older state never replaces a newer one.
    writing: tokio::sync::Mutex<()>,
    wake: Notify,
    /// Notified when there is an event to publish.
    events: Notify,
    problems: watch::Sender<Vec<String>>,
    /// Notified when the record of the node has other checks or states.
    state_changes: StateChanges,
}

impl CheckMonitor {
    pub(crate) fn new(
        runner: CheckRunner,
        directory: PathBuf,
        state: PathBuf,
        state_changes: StateChanges,
    ) -> Self {
        let timeout = runner.timeout();
        Self(Arc::new(MonitorInner {
            runner,
            directory,
            file: StateFile::new(state),
            state: Mutex::new(MonitorState { timeout, ..MonitorState::default() }),
            writing: tokio::sync::Mutex::default(),
            wake: Notify::new(),
            events: Notify::new(),
            problems: watch::Sender::default(),
            state_changes,
        }))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, MonitorState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn reload(&self) {
        self.lock().reload = true;
        self.0.wake.notify_one();
    }

    /// What is wrong with the files; changes as they are read.
    pub fn problems(&self) -> watch::Receiver<Vec<String>> {
        self.0.problems.subscribe()
    }

    /// Reads all files of schedules now, and returns what is wrong with them. Changes nothing. Blocks.
    pub fn file_problems(&self, system: &dyn System) -> Vec<String> {
        let mut table = ScheduleTable::default();
        table.refresh(system, &self.0.directory, true);
        table.problems
    }

    /// Waits until there may be an event to publish.
    pub async fn wait_for_event(&self) {
        self.0.events.notified().await;
    }

    /// The events that were not published yet, oldest first.
    pub fn unpublished_events(&self) -> Vec<StoredCheckEvent> {
        self.lock().book.events.iter().cloned().collect()
    }

    /// Removes events that the broker has received.
    pub async fn confirm_events(&self, published: &[Uuid]) {
        if self.lock().confirm_events(published) {
            self.save().await;
        }
    }

    /// The checks of this node by name.
    pub(super) fn rows(&self) -> Vec<ScheduledCheckRow> {
        self.lock().views(unix_millis_now()).map(CheckView::to_row).collect()
    }

    /// The change is on disk when this returns.
    pub(super) async fn change<T>(&self, change: impl FnOnce(&mut MonitorState, Millis) -> T) -> T {
        let result = {
            let mut state = self.lock();
            state.mark_unsaved(WriteUrgency::Now);
            change(&mut state, unix_millis_now())
        };
        self.save().await;
        self.0.wake.notify_one();
        self.announce();
        result
    }

    /// Has new events published, and the state of the checks read.
    fn announce(&self) {
        self.0.events.notify_one();
        self.0.state_changes.notify();
    }

    /// What the record of the node says of this check.
    fn recorded_check(&self, name: &str) -> Option<RecordedCheck> {
        let state = self.lock();
        let mut views = state.views(unix_millis_now());
        views.find(|view| view.schedule.name == name).map(CheckView::to_recorded)
    }

    /// Wakes the task, which then runs triggered checks.
    pub(super) fn wake(&self) {
        self.0.wake.notify_one();
    }

    /// Runs until `stop` is cancelled; running checks are ended then, and the next daemon runs them again.
    pub async fn run(
        self,
        node: Arc<dyn NodeHandle>,
        system: Arc<dyn System>,
        stop: CancellationToken,
    ) {
        self.load(node.identity().as_str(), &system).await;
        let cancel = CancelFlag::default();
        let mut runs = JoinSet::new();
        let mut table = ScheduleTable::default();
        let mut last_poll = None::<Instant>;
        while !stop.is_cancelled() {
            let reload = std::mem::take(&mut self.lock().reload);
            if reload || last_poll.is_none_or(|at| at.elapsed() >= POLL_INTERVAL) {
                table = self.refresh(table, &node, &system, reload).await;
                last_poll = Some(Instant::now());
            }
            let (due, pause) = self.advance(unix_millis_now());
            for (check, timeout) in due {
                let (monitor, system, cancel) = (self.clone(), Arc::clone(&system), cancel.clone());
                runs.spawn(async move { monitor.run_check(check, timeout, system, cancel).await });
            }
            tokio::select! {
                () = self.0.wake.notified() => {}
                () = tokio::time::sleep(pause) => {}
                () = stop.cancelled() => {}
                Some(_) = runs.join_next() => {}
            }
            self.save_if_due().await;
        }
        cancel.cancel();
        while runs.join_next().await.is_some() {}
        self.lock().mark_unsaved(WriteUrgency::Now);
        self.save().await;
    }

    async fn load(&self, node: &str, system: &Arc<dyn System>) {
        let (file, system) = (self.0.file.clone(), Arc::clone(system));
        let loaded = tokio::task::spawn_blocking(move || {
            let ended = end_orphans(&*system, &file.path().display().to_string());
            if ended > 0 {
                tracing::info!(ended, "ended checks that an earlier daemon has left running");
            }
            file.load()
        });
        let (book, problem) = loaded.await.unwrap_or_default();
        if let Some(problem) = &problem {
            tracing::error!(problem, "cannot use the states of the checks");
        }
        let mut state = self.lock();
        (state.book, state.file_problem) = (book, problem);
        node.clone_into(&mut state.node);
        drop(state);
        self.announce();
    }

    /// Reads changed files, and selects the checks of this node.
    async fn refresh(
        &self,
        mut table: ScheduleTable,
        node: &Arc<dyn NodeHandle>,
        system: &Arc<dyn System>,
        all: bool,
    ) -> ScheduleTable {
        let (monitor, system) = (self.clone(), Arc::clone(system));
        let read = tokio::task::spawn_blocking(move || {
            let has_changed = table.refresh(&*system, &monitor.0.directory, all);
            (table, has_changed)
        });
        let Ok((table, has_changed)) = read.await else { return ScheduleTable::default() };
        let mut state = self.lock();
        if has_changed {
            state.schedules.clone_from(&table.checks);
        }
        let active = state.active.clone();
        state.select_checks(&**node, unix_millis_now());
        if active != state.active {
            self.0.state_changes.notify();
        }
        let mut problems = Vec::from_iter(state.file_problem.clone());
        problems.extend(table.problems.iter().cloned());
        drop(state);
        self.0.problems.send_if_modified(|before| {
            let is_new = *before != problems;
            for problem in problems.iter().filter(|problem| !before.contains(problem)) {
                tracing::warn!(problem, "a schedule of checks is not valid");
            }
            *before = problems;
            is_new
        });
        table
    }

    /// Ends what has an end, and takes the checks that are due.
    fn advance(&self, now: Millis) -> (Vec<(ScheduledCheck, Duration)>, Duration) {
        let mut state = self.lock();
        if state.book.expire(now) {
            state.mark_unsaved(WriteUrgency::Now);
            self.announce();
        }
        (state.take_due(now), state.pause(now))
    }

    async fn run_check(
        &self,
        check: ScheduledCheck,
        timeout: Duration,
        system: Arc<dyn System>,
        cancel: CancelFlag,
    ) {
        let owner = self.0.file.path().display().to_string();
        let run = ScheduledRun { command: check.command.clone(), timeout, owner, cancel };
        let ended = self.0.runner.run_scheduled(run, system).await;
        let before = self.recorded_check(&check.name);
        let has_event = self.lock().end_run(&check.name, ended);
        if has_event {
            self.save().await;
            self.announce();
        } else if before != self.recorded_check(&check.name) {
            // A first result, or a change in a maintenance.
            self.0.state_changes.notify();
        }
    }

    /// Writes the file if anything has changed that must not wait.
    async fn save_if_due(&self) {
        let is_due = self.lock().is_write_due();
        if is_due {
            self.save().await;
        }
    }

    /// Writes the file, if anything has changed.
    async fn save(&self) {
        let _writing = self.0.writing.lock().await;
        let encoded = {
            let mut state = self.lock();
            state.unsaved_since = None;
            if state.unsaved.take().is_none() {
                return;
            }
            StateFile::encode(&state.book)
        };
        let file = self.0.file.clone();
        let written = match encoded {
            Ok(bytes) => tokio::task::spawn_blocking(move || file.write(&bytes)).await,
            Err(error) => Ok(Err(error.into())),
        };
        let mut state = self.lock();
        let problem = written.ok().and_then(Result::err);
        if let Some(error) = &problem {
            if !state.has_write_failed {
                let (error, path) = (error_chain(error), self.0.file.path());
                tracing::error!(error, path = %path.display(), "cannot write the states of the checks; trying again");
            }
            state.mark_unsaved(WriteUrgency::Later);
        }
        state.has_write_failed = problem.is_some();
    }
}

impl StateSource for CheckMonitor {
    fn name(&self) -> &'static str {
        CHECKS_STATE_NAME
    }

    fn read_state(&self, _: &dyn System) -> Option<Map<String, Value>> {
        let recorded = record_checks(self.lock().views(unix_millis_now()));
        if recorded.counts.total() == 0 {
            return None;
        }
        match serde_json::to_value(recorded) {
            Ok(Value::Object(state)) => Some(state),
            _ => None,
        }
    }
}
