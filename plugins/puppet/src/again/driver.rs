//! Turns of the task: observe, ask the planner, and do one step.

use std::sync::Arc;
use std::time::Duration;

use muster_api::system::System;
use muster_files::FileStamp;

use crate::RunActivity;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::again::accept::log_failure;
use crate::again::budget::BudgetPermit;
use crate::again::monitor::{JournalError, MonitorInner};
use crate::again::plan::barrier::BarrierEnd;
use crate::again::plan::event::AgainEvent;
use crate::again::plan::next::NextStep;
use crate::again::plan::state::AgainState;

/// Longest time between two turns: a request of a manifest is accepted within it.
const IDLE_INTERVAL: Duration = Duration::from_millis(500);
/// Time between two turns while a run or a lock is observed.
const ACTIVE_INTERVAL: Duration = Duration::from_millis(100);
/// Number of turns between two looks for a new report of Puppet.
const TURNS_PER_REPORT: u32 = 4;
/// Pause after a failed wait for a permit of the budget.
const BUDGET_RETRY: Duration = Duration::from_secs(5);

pub(crate) struct RunDriver {
    pub(crate) inner: Arc<MonitorInner>,
    pub(crate) host: String,
    pub(crate) system: Arc<dyn System>,
    budget: BudgetState,
}

/// What a turn has read from the disk.
pub(crate) struct Observation {
    pub(crate) activity: RunActivity,
    pub(crate) step: NextStep,
}

/// The permit of the due run from the fleet's budget.
#[derive(Default)]
enum BudgetState {
    /// None is needed now.
    #[default]
    None,
    /// A task waits for it.
    Waiting(JoinHandle<Option<BudgetPermit>>, CancellationToken),
    /// The run may begin, or has begun and was not observed yet.
    Held(BudgetPermit),
}

impl RunDriver {
    pub(crate) fn new(inner: Arc<MonitorInner>, host: String, system: Arc<dyn System>) -> Self {
        Self { inner, host, system, budget: BudgetState::None }
    }

    pub(crate) async fn run(mut self, stop: CancellationToken) {
        tokio::select! {
            () = self.inner.puppet.until_resumed() => {}
            () = stop.cancelled() => return,
        }
        self.occupy_budget().await;
        let mut reports = ReportWatch::default();
        while !stop.is_cancelled() {
            let pause = self.turn(&mut reports).await;
            tokio::select! {
                () = self.inner.wake.notified() => {}
                () = tokio::time::sleep(pause) => {}
                () = stop.cancelled() => {}
            }
        }
        if let BudgetState::Waiting(task, cancel) = std::mem::take(&mut self.budget) {
            cancel.cancel();
            // The task ends when its wait is cancelled.
            let _ = task.await;
        }
    }

    /// Counts a run that an earlier daemon began less than a period ago.
    async fn occupy_budget(&self) {
        let now = self.inner.now();
        let last = self.inner.with_state(|state| state.starts.back().copied()).flatten();
        if let Some(last) = last {
            let age = Duration::from_millis(now.saturating_sub(last));
            self.inner.budget.occupy(Uuid::now_v7(), age).await;
        }
    }

    /// One turn; returns the time until the next one.
    async fn turn(&mut self, reports: &mut ReportWatch) -> Duration {
        let (inner, system) = (Arc::clone(&self.inner), Arc::clone(&self.system));
        let before = *reports;
        let observed = tokio::task::spawn_blocking(move || observe(&inner, &*system, before)).await;
        let (observation, after) = match observed {
            Ok(Ok(observed)) => observed,
            Ok(Err(error)) => {
                log_failure(&error);
                return BUDGET_RETRY;
            }
            Err(_) => return BUDGET_RETRY,
        };
        *reports = after;
        let is_starting = matches!(observation.step, NextStep::Start | NextStep::AwaitRun(_));
        if !is_starting {
            self.inner.set_waiting(None);
            self.drop_budget().await;
        }
        match self.do_step(observation).await {
            Ok(pause) => pause,
            Err(error) => {
                log_failure(&error);
                BUDGET_RETRY
            }
        }
    }

    async fn do_step(&mut self, observation: Observation) -> Result<Duration, JournalError> {
        match observation.step {
            NextStep::Idle => Ok(IDLE_INTERVAL),
            NextStep::Wait { until, .. } | NextStep::AwaitNodes { until } => {
                let left = Duration::from_millis(until.saturating_sub(self.inner.now()));
                Ok(left.min(IDLE_INTERVAL).max(Duration::from_millis(1)))
            }
            NextStep::Suppress(reason) => {
                let at = self.inner.now();
                self.record(AgainEvent::Suppressed { at, reason, by: None }).await?;
                Ok(Duration::ZERO)
            }
            NextStep::ExpireBarriers => {
                let at = self.inner.now();
                let expired = |state: &AgainState| {
                    state.pending.as_ref().map(|pending| pending.expired_barriers(at))
                };
                let ids = self.inner.with_state(expired).flatten().unwrap_or_default();
                let end = BarrierEnd::TimedOut;
                self.record(AgainEvent::BarriersEnded { at, ids, end }).await?;
                Ok(Duration::ZERO)
            }
            NextStep::AwaitRunEnd => self.await_run_end(observation.activity).await,
            NextStep::AwaitRun(run) => self.follow_run(run).await,
            NextStep::Start => self.begin_due_run(observation.activity).await,
        }
    }

    /// Begins the due run when no catalog is applied and the budget has a permit.
    async fn begin_due_run(&mut self, activity: RunActivity) -> Result<Duration, JournalError> {
        if !activity.is_idle() {
            self.inner.set_waiting(Some("a run is in progress".to_owned()));
            return Ok(ACTIVE_INTERVAL);
        }
        match std::mem::take(&mut self.budget) {
            BudgetState::None => {
                self.budget = self.wait_for_budget();
                Ok(ACTIVE_INTERVAL)
            }
            BudgetState::Waiting(task, cancel) if !task.is_finished() => {
                self.budget = BudgetState::Waiting(task, cancel);
                Ok(IDLE_INTERVAL)
            }
            BudgetState::Waiting(task, _) => match task.await.ok().flatten() {
                Some(permit) => {
                    self.budget = BudgetState::Held(permit);
                    Ok(Duration::ZERO)
                }
                None => Ok(BUDGET_RETRY),
            },
            BudgetState::Held(permit) => {
                self.budget = BudgetState::Held(permit);
                self.inner.set_waiting(None);
                let (at, run) = (self.inner.now(), Uuid::now_v7());
                // On disk before the run begins: a daemon that is killed here begins the same run later.
                self.record(AgainEvent::Started { at, run }).await?;
                self.begin_run(run).await?;
                Ok(ACTIVE_INTERVAL)
            }
        }
    }

    fn wait_for_budget(&self) -> BudgetState {
        let cancel = CancellationToken::new();
        let (inner, token) = (Arc::clone(&self.inner), cancel.clone());
        self.inner.set_waiting(Some(
            "the fleet's limit of further runs per minute is reached".to_owned(),
        ));
        let task = tokio::spawn(async move {
            let acquired = inner.budget.acquire(Uuid::now_v7(), &token).await;
            inner.wake.notify_one();
            match acquired {
                Ok(permit) => Some(permit),
                Err(error) => {
                    let problem = muster_api::base::error_chain(&error);
                    tracing::info!(
                        problem,
                        "a further run waits for a permit of the fleet's budget"
                    );
                    inner.set_waiting(Some(problem));
                    None
                }
            }
        });
        BudgetState::Waiting(task, cancel)
    }

    /// Releases a permit for which no run begins.
    async fn drop_budget(&mut self) {
        match std::mem::take(&mut self.budget) {
            BudgetState::None => {}
            BudgetState::Waiting(task, cancel) => {
                cancel.cancel();
                if let Ok(Some(permit)) = task.await {
                    permit.release().await;
                }
            }
            BudgetState::Held(permit) => permit.release().await,
        }
    }

    /// The run was observed to go on: its permit is released a period later.
    pub(crate) fn keep_budget(&mut self) {
        match std::mem::take(&mut self.budget) {
            BudgetState::Held(permit) => permit.release_later(),
            other => self.budget = other,
        }
    }

    /// Writes an event, off the runtime's threads.
    pub(crate) async fn record(&self, event: AgainEvent) -> Result<(), JournalError> {
        let inner = Arc::clone(&self.inner);
        let written = tokio::task::spawn_blocking(move || inner.record(&event));
        written.await.unwrap_or(Err(JournalError::NotOpen))
    }
}

/// Accepts requests, and reads what the next step depends on; an idle node reads little. Blocks.
fn observe(
    inner: &MonitorInner,
    system: &dyn System,
    reports: ReportWatch,
) -> Result<(Observation, ReportWatch), JournalError> {
    let requests = inner.spool.read_requests()?;
    let next_step = || {
        let now = inner.now();
        inner.with_state(|state| state.next_step(&inner.policy, now)).ok_or(JournalError::NotOpen)
    };
    let needs_activity =
        !requests.is_empty() || matches!(next_step()?, NextStep::AwaitRunEnd | NextStep::Start);
    let activity =
        if needs_activity { inner.puppet.activity(system) } else { RunActivity::default() };
    inner.accept_handed_over(requests, activity)?;
    let reports = reports.look(inner, system)?;
    Ok((Observation { activity, step: next_step()? }, reports))
}

#[derive(Debug, Clone, Copy, Default)]
struct ReportWatch {
    turns: u32,
    seen: Option<FileStamp>,
}

impl ReportWatch {
    /// Checks for a new report, every [`TURNS_PER_REPORT`] turns. The first one that is found existed before.
    fn look(mut self, inner: &MonitorInner, system: &dyn System) -> Result<Self, JournalError> {
        if self.turns.is_multiple_of(TURNS_PER_REPORT) {
            // A report that is still being written is read again when it is complete: its time may be the same, its size is not.
            let stamp = inner.puppet.report_stamp(system);
            if self.turns > 0 && stamp != self.seen {
                inner.record_would_run(system)?;
            }
            self.seen = stamp;
        }
        self.turns = self.turns.wrapping_add(1);
        Ok(self)
    }
}
