//! What the task of the scheduled checks knows: schedules, states, and which checks run. Decides what is due; runs and writes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_api::NodeHandle;
use muster_api::base::unix_millis_now;
use muster_api::wire::Millis;
use muster_contract::nrpe::{CheckState, RunCommandOutput};
use tokio::time::Instant;
use uuid::Uuid;

use super::check_book::CheckBook;
use super::check_record::{CheckResult, CheckRules};
use super::describe::CheckView;
use super::schedule_file::ScheduledCheck;
use super::timing::{CheckTiming, splay_millis};

/// Interval at which files are checked for changes, and filters are evaluated.
pub(super) const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// How long a result without an event waits until it is written: results of many checks become one write.
const WRITE_DELAY: Duration = Duration::from_secs(5);
const MIN_PAUSE: Duration = Duration::from_millis(5);

#[derive(Debug, Default)]
pub(super) struct MonitorState {
    pub(super) book: CheckBook,
    /// The valid checks of all files.
    pub(super) schedules: BTreeMap<String, ScheduledCheck>,
    /// The checks of this node: enabled ones whose filter matches.
    pub(super) active: BTreeSet<String>,
    pub(super) running: BTreeSet<String>,
    /// Checks that run as soon as possible.
    pub(super) triggered: BTreeSet<String>,
    pub(super) node: String,
    pub(super) timeout: Duration,
    pub(super) file_problem: Option<String>,
    /// Whether there is something to write, and whether it may wait.
    pub(super) unsaved: Option<WriteUrgency>,
    pub(super) unsaved_since: Option<Instant>,
    /// Whether the last write has failed, which is reported once.
    pub(super) has_write_failed: bool,
    /// Whether every file of schedules is read again.
    pub(super) reload: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WriteUrgency {
    /// With the results of the next five seconds.
    Later,
    Now,
}

impl MonitorState {
    pub(super) fn mark_unsaved(&mut self, urgency: WriteUrgency) {
        self.unsaved = self.unsaved.max(Some(urgency));
        self.unsaved_since.get_or_insert_with(Instant::now);
    }

    /// Removes events that the broker has received. Returns whether anything has changed.
    pub(super) fn confirm_events(&mut self, published: &[Uuid]) -> bool {
        let has_changed = self.book.confirm_events(published);
        if has_changed {
            self.mark_unsaved(WriteUrgency::Now);
        }
        has_changed
    }

    /// Records the end of a run: its result and when it started, or `None` if it was cancelled. Returns whether there is an event.
    pub(super) fn end_run(
        &mut self,
        check: &str,
        ended: Option<(RunCommandOutput, Millis)>,
    ) -> bool {
        self.running.remove(check);
        // The schedule may have changed meanwhile; a check that was removed has no result.
        let rules = self.schedule(check).map(|check| self.rules(check));
        let (Some((output, started)), Some(rules)) = (ended, rules) else { return false };
        let last_event = |state: &Self| state.book.events.back().map(|event| event.id);
        let before = last_event(self);
        self.book.add_result(check, to_result(output, started), &rules);
        let has_event = before != last_event(self);
        self.mark_unsaved(if has_event { WriteUrgency::Now } else { WriteUrgency::Later });
        has_event
    }

    /// Whether the file must be written now. Results without an event wait, so that those of many checks become one write.
    pub(super) fn is_write_due(&self) -> bool {
        match self.unsaved {
            Some(WriteUrgency::Now) => true,
            Some(WriteUrgency::Later) => {
                self.unsaved_since.is_none_or(|since| since.elapsed() >= WRITE_DELAY)
            }
            None => false,
        }
    }

    /// The schedule of a check of this node.
    fn schedule(&self, check: &str) -> Option<&ScheduledCheck> {
        self.schedules.get(check).filter(|_| self.active.contains(check))
    }

    fn rules(&self, check: &ScheduledCheck) -> CheckRules {
        let interval_millis = millis(check.interval);
        let timing = CheckTiming {
            interval_millis,
            retry_millis: millis(check.retry_interval),
            phase_millis: splay_millis(&self.node, &check.name, interval_millis),
            is_splayed: check.splay,
        };
        CheckRules { timing, max_attempts: check.max_attempts, flapping: check.flapping }
    }

    fn timeout_of(&self, check: &ScheduledCheck) -> Duration {
        check.timeout.unwrap_or(self.timeout)
    }

    pub(super) fn views(&self, now: Millis) -> impl Iterator<Item = CheckView<'_>> {
        let node_maintenance = self.book.maintenance.as_ref();
        self.active.iter().filter_map(move |name| {
            let schedule = self.schedule(name)?;
            let record = self.book.records.get(name)?;
            let timeout_millis = millis(self.timeout_of(schedule));
            Some(CheckView { schedule, record, node_maintenance, timeout_millis, now })
        })
    }

    /// Selects the checks of this node, and plans their next runs.
    pub(super) fn select_checks(&mut self, node: &dyn NodeHandle, now: Millis) {
        let active: BTreeSet<String> = self
            .schedules
            .values()
            .filter(|check| check.enabled && node.is_matched_by(&check.filter))
            .map(|check| check.name.clone())
            .collect();
        if active != self.active {
            self.mark_unsaved(WriteUrgency::Later);
        }
        self.active = active;
        let rules: BTreeMap<String, CheckRules> = self
            .schedules
            .iter()
            .filter(|(name, _)| self.active.contains(*name))
            .map(|(name, check)| (name.clone(), self.rules(check)))
            .collect();
        for (name, rules) in &rules {
            let record = self.book.records.entry(name.clone()).or_default();
            record.unscheduled_since = None;
            record.plan_run(&rules.timing, now);
        }
        if self.book.keep_scheduled(|name| rules.contains_key(name), now) {
            self.mark_unsaved(WriteUrgency::Now);
        }
        self.triggered.retain(|name| rules.contains_key(name));
    }

    /// The checks that are due, which run from now on.
    pub(super) fn take_due(&mut self, now: Millis) -> Vec<(ScheduledCheck, Duration)> {
        let is_due = |name: &&String| {
            let planned = self.book.records.get(*name).and_then(|record| record.next_check);
            !self.running.contains(*name)
                && (self.triggered.contains(*name) || planned.is_some_and(|due| due <= now))
        };
        let due: Vec<String> = self.active.iter().filter(is_due).cloned().collect();
        let runs = due.iter().filter_map(|name| {
            let check = self.schedule(name)?;
            Some((check.clone(), self.timeout_of(check)))
        });
        let runs = runs.collect();
        for name in due {
            self.triggered.remove(&name);
            self.running.insert(name);
        }
        runs
    }

    /// The time until the next run, expiry or write.
    pub(super) fn pause(&self, now: Millis) -> Duration {
        let windows = self.book.maintenance.iter().map(|window| window.until);
        let active =
            self.active.iter().filter_map(|name| Some((name, self.book.records.get(name)?)));
        let times = active.flat_map(|(name, record)| {
            let due = record.next_check.filter(|_| !self.running.contains(name));
            let maintenance = record.maintenance.as_ref().map(|window| window.until);
            let acknowledged = record.acknowledgement.as_ref().and_then(|found| found.until);
            [due, maintenance, acknowledged].into_iter().flatten()
        });
        let next = times.chain(windows).min();
        let pause = next.map_or(POLL_INTERVAL, |at| Duration::from_millis(at.saturating_sub(now)));
        let limit = if self.unsaved.is_some() { WRITE_DELAY } else { POLL_INTERVAL };
        pause.clamp(MIN_PAUSE, limit)
    }
}

fn millis(duration: Duration) -> Millis {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn to_result(output: RunCommandOutput, started: Millis) -> CheckResult {
    CheckResult {
        state: CheckState::from_exit_code(output.exitcode),
        output: output.output,
        perfdata: output.perfdata,
        started,
        finished: unix_millis_now().max(started),
    }
}
