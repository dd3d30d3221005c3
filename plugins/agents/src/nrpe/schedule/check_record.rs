//! The state of a scheduled check, and how results change it: soft and hard states as in Nagios. Pure; the time is an argument.

use muster_api::wire::Millis;
use muster_contract::nrpe::{CheckAcknowledgement, CheckState, MaintenanceWindow};
use serde::{Deserialize, Serialize};

use super::flapping::{FlapHistory, FlapThresholds};
use super::timing::{CheckTiming, next_slot};

/// Time after which a check that has not run counts as late, besides its own timeout.
const OVERDUE_GRACE_MILLIS: Millis = 30_000;

#[derive(Debug, Clone, PartialEq)]
pub struct CheckRules {
    pub timing: CheckTiming,
    /// Results in a row that make a problem hard; at least 1.
    pub max_attempts: u32,
    /// Thresholds of flap detection; `None` without it.
    pub flapping: Option<FlapThresholds>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckResult {
    pub state: CheckState,
    /// The first line.
    pub output: String,
    pub perfdata: String,
    pub started: Millis,
    pub finished: Millis,
}

/// The default is a check that has never run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CheckRecord {
    /// The confirmed state; `None` before the first one.
    pub hard: Option<CheckState>,
    /// The state of the last result.
    pub current: Option<CheckState>,
    /// Number of the last result among those that decide; 1 for OK, 0 before the first result.
    pub attempt: u32,
    /// When it got its hard state.
    pub since: Option<Millis>,
    /// The last output.
    pub output: String,
    /// The last performance data.
    pub perfdata: String,
    /// The output when it got its hard state.
    pub hard_output: String,
    pub last_check: Option<Millis>,
    /// When it runs next; `None` until that is planned.
    pub next_check: Option<Millis>,
    /// The time of a run within the interval, if it is not that of the splay.
    pub phase: Option<Millis>,
    pub flaps: FlapHistory,
    pub acknowledgement: Option<CheckAcknowledgement>,
    pub maintenance: Option<MaintenanceWindow>,
    /// The last state for which an event exists; `None` is OK.
    pub announced: Option<CheckState>,
    /// Since when no schedule has the check.
    pub unscheduled_since: Option<Millis>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckTransition {
    /// It has another hard state that is not OK; the one before.
    Problem(CheckState),
    /// It is OK again; the state before.
    Recovery(CheckState),
    FlappingStart,
    FlappingEnd,
    Acknowledged(CheckAcknowledgement),
    /// The acknowledgement was removed, by this caller, or has expired.
    Unacknowledged(Option<String>),
    MaintenanceStart(MaintenanceWindow),
    /// A maintenance ended: this caller ended it, or it expired.
    MaintenanceEnd(Option<String>),
    /// No schedule has the check any more.
    Removed,
}

impl CheckRecord {
    /// Whether the last result is not confirmed yet.
    pub fn is_soft(&self) -> bool {
        self.current != self.hard
    }

    /// Whether the check has a maintenance of its own.
    pub fn is_in_maintenance(&self, now: Millis) -> bool {
        self.maintenance.as_ref().is_some_and(|window| now < window.until)
    }

    /// Whether the check should have run long ago.
    pub fn is_overdue(&self, timeout: Millis, now: Millis) -> bool {
        let limit = timeout.saturating_add(OVERDUE_GRACE_MILLIS);
        self.next_check.is_some_and(|due| now > due.saturating_add(limit))
    }

    /// Records a result, and plans the next run.
    pub fn add_result(
        &mut self,
        result: CheckResult,
        rules: &CheckRules,
        is_node_in_maintenance: bool,
    ) -> Vec<CheckTransition> {
        let CheckResult { state, output, perfdata, started, finished } = result;
        let max_attempts = rules.max_attempts.max(1);
        let is_confirmed = self.confirm(state, max_attempts);
        self.current = Some(state);
        (self.output, self.perfdata) = (output, perfdata);
        self.last_check = Some(started);
        let mut transitions = Vec::new();
        if is_confirmed {
            if self.hard != Some(state) {
                self.since = Some(finished);
                self.hard_output.clone_from(&self.output);
            }
            self.hard = Some(state);
        }
        if state == CheckState::Ok {
            self.acknowledgement = None;
        }
        // As in Nagios, results that are not confirmed do not count.
        let flapping = is_confirmed.then(|| self.flaps.add(state, rules.flapping)).flatten();
        transitions.extend(self.announce(finished, is_node_in_maintenance));
        transitions.extend(flapping.map(|begins| {
            if begins { CheckTransition::FlappingStart } else { CheckTransition::FlappingEnd }
        }));
        self.plan_next(&rules.timing, finished);
        transitions
    }

    /// Counts the attempts. Returns whether the state is hard then.
    fn confirm(&mut self, state: CheckState, max_attempts: u32) -> bool {
        if state == CheckState::Ok {
            self.attempt = 1;
            return true;
        }
        let is_hard_problem = self.hard.is_some_and(|hard| hard != CheckState::Ok);
        self.attempt = match self.current {
            _ if is_hard_problem => max_attempts,
            None | Some(CheckState::Ok) => 1,
            // A larger number is left from a schedule with more attempts.
            Some(_) => self.attempt.saturating_add(1).min(max_attempts),
        };
        self.attempt >= max_attempts
    }

    /// The event that is due: events follow the hard state, except that problems wait for the end of a maintenance.
    fn announce(&mut self, now: Millis, is_node_in_maintenance: bool) -> Option<CheckTransition> {
        let (before, hard) = (self.announced.unwrap_or(CheckState::Ok), self.hard?);
        let is_quiet = is_node_in_maintenance || self.is_in_maintenance(now);
        if before == hard || (is_quiet && hard != CheckState::Ok) {
            return None;
        }
        self.announced = Some(hard);
        Some(match hard {
            CheckState::Ok => CheckTransition::Recovery(before),
            _ => CheckTransition::Problem(before),
        })
    }

    /// Plans the next run after one that ended at this time.
    fn plan_next(&mut self, timing: &CheckTiming, now: Millis) {
        self.next_check = Some(if self.is_soft() {
            let started = self.last_check.unwrap_or(now);
            started.saturating_add(timing.retry_millis).max(now)
        } else {
            next_slot(now, timing.interval_millis, self.phase.unwrap_or(timing.phase_millis))
        });
    }

    /// Plans the first run, or one that a changed schedule or clock has moved too far away. A time that has passed remains: the run is made up for at once.
    pub fn plan_run(&mut self, timing: &CheckTiming, now: Millis) {
        let limit = now.saturating_add(timing.interval_millis.max(timing.retry_millis));
        if self.next_check.is_some_and(|due| due <= limit) {
            return;
        }
        let is_first = self.next_check.is_none() && self.last_check.is_none();
        if is_first && !timing.is_splayed {
            (self.phase, self.next_check) = (Some(now), Some(now));
            return;
        }
        if timing.is_splayed {
            self.phase = None;
        }
        let phase = self.phase.unwrap_or(timing.phase_millis);
        self.next_check = Some(next_slot(now, timing.interval_millis, phase));
    }

    /// Acknowledges the problem of the last result; `None` if there is none.
    pub fn acknowledge(
        &mut self,
        acknowledgement: CheckAcknowledgement,
    ) -> Option<CheckTransition> {
        self.current.filter(|state| *state != CheckState::Ok)?;
        self.acknowledgement = Some(acknowledgement.clone());
        Some(CheckTransition::Acknowledged(acknowledgement))
    }

    /// Removes the acknowledgement; `None` if there is none.
    pub fn unacknowledge(&mut self, author: Option<String>) -> Option<CheckTransition> {
        self.acknowledgement.take().map(|_| CheckTransition::Unacknowledged(author))
    }

    /// Begins a maintenance, or replaces it.
    pub fn begin_maintenance(&mut self, window: MaintenanceWindow) -> CheckTransition {
        self.maintenance = Some(window.clone());
        CheckTransition::MaintenanceStart(window)
    }

    /// Ends the maintenance; none if there is none. A problem that has begun in it is announced, unless the node is in maintenance.
    pub fn end_maintenance(
        &mut self,
        author: Option<String>,
        now: Millis,
        is_node_in_maintenance: bool,
    ) -> Vec<CheckTransition> {
        let Some(_) = self.maintenance.take() else { return Vec::new() };
        let mut transitions = vec![CheckTransition::MaintenanceEnd(author)];
        transitions.extend(self.announce(now, is_node_in_maintenance));
        transitions
    }

    /// Ends what has an end: acknowledgements and maintenance; and announces what a maintenance of the node has held back.
    pub fn expire(&mut self, now: Millis, is_node_in_maintenance: bool) -> Vec<CheckTransition> {
        let mut transitions = Vec::new();
        if self.maintenance.as_ref().is_some_and(|window| now >= window.until) {
            transitions.extend(self.end_maintenance(None, now, is_node_in_maintenance));
        }
        transitions.extend(self.announce(now, is_node_in_maintenance));
        let end = self.acknowledgement.as_ref().and_then(|found| found.until);
        if end.is_some_and(|end| now >= end) {
            transitions.extend(self.unacknowledge(None));
        }
        transitions
    }
}

#[cfg(test)]
mod tests;
