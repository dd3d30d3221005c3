//! The state of one restart and the merging of requests into it. Pure data: no waiting and no I/O.
//!
//! ```text
//! requested -> waiting -> locked -> restarting -> verifying -> ok | failed
//!                  \-> timeout
//! ```
//!
//! Requests for the same target merge while a restart is requested or waiting. Later requests need another restart after this one, because
//! the restarting service may already have read its configuration.

use muster_api::base::duration_millis;
use std::path::PathBuf;
use std::time::Duration;

use muster_api::system::ProcessId;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::restart::target::RestartTarget;

/// Number of finished restarts kept per target.
const MAX_PAST_CYCLES: usize = 8;
/// Largest number of steps kept per restart.
const MAX_STEPS: usize = 64;

/// The state of a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RestartState {
    /// The request is stored.
    Requested,
    /// Waits for the run in progress to end.
    Waiting,
    /// The run lock is held, so no run can begin; or the options skip or ended the wait for it.
    Locked,
    /// The restart is being executed.
    Restarting,
    /// The restart was executed and the new process is being checked.
    Verifying,
    /// The target runs again.
    Ok,
    /// The target does not run, or still has the same process.
    Failed,
    /// The run did not end before the deadline; nothing was restarted.
    Timeout,
}

impl RestartState {
    /// Whether this state is final.
    pub fn is_finished(self) -> bool {
        matches!(self, Self::Ok | Self::Failed | Self::Timeout)
    }

    /// Whether another request can still merge into a restart in this state.
    pub fn accepts_requests(self) -> bool {
        matches!(self, Self::Requested | Self::Waiting)
    }

    /// Name of the state in replies.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::Waiting => "waiting",
            Self::Locked => "locked",
            Self::Restarting => "restarting",
            Self::Verifying => "verifying",
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::Timeout => "timeout",
        }
    }
}

/// Options of a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestartOptions {
    /// Wait until no run is in progress.
    pub when_idle: bool,
    /// Longest wait.
    pub deadline: Duration,
    /// Restart even if the deadline has passed.
    pub force: bool,
    /// How long the daemon may take after the restart until it is ready on the broker; `None` skips this check.
    pub verify_bus: Option<Duration>,
    /// PID file of the target, if the machine does not provide its process otherwise.
    pub pid_file: Option<PathBuf>,
}

impl Default for RestartOptions {
    fn default() -> Self {
        Self {
            when_idle: true,
            deadline: Duration::from_hours(2),
            force: false,
            verify_bus: None,
            pid_file: None,
        }
    }
}

/// An instant on two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockReading {
    /// Milliseconds since 1970. This clock can be set.
    pub wall: u64,
    /// Milliseconds since the machine booted.
    pub uptime: u64,
}

/// A state change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestartStep {
    /// The new state.
    pub state: RestartState,
    /// Time of the change.
    pub at: ClockReading,
    /// Reason, for people.
    pub text: String,
}

/// One restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestartCycle {
    /// Identifier with which callers query the restart.
    pub id: Uuid,
    /// The current state.
    pub state: RestartState,
    /// Description of the current state.
    pub text: String,
    /// Number of merged requests.
    pub requests: u32,
    /// Time of the first request.
    pub requested: ClockReading,
    /// End of waiting, in milliseconds since 1970.
    pub deadline: u64,
    /// See [`RestartOptions`].
    pub when_idle: bool,
    /// See [`RestartOptions`].
    pub force: bool,
    /// See [`RestartOptions`]; in milliseconds.
    pub verify_bus: Option<u64>,
    /// See [`RestartOptions`].
    pub pid_file: Option<PathBuf>,
    /// The main process before the restart.
    pub before: Option<ProcessId>,
    /// The main process after the restart.
    pub after: Option<ProcessId>,
    /// The daemon instance before the restart, if the target is the daemon.
    pub instance: Option<Uuid>,
    /// State changes, oldest first.
    pub steps: Vec<RestartStep>,
}

impl RestartCycle {
    /// A restart with one request.
    pub fn new(id: Uuid, options: &RestartOptions, now: ClockReading) -> Self {
        let mut cycle = Self {
            id,
            state: RestartState::Requested,
            text: String::new(),
            requests: 1,
            requested: now,
            deadline: now.wall.saturating_add(duration_millis(options.deadline)),
            when_idle: options.when_idle,
            force: options.force,
            verify_bus: options.verify_bus.map(duration_millis),
            pid_file: options.pid_file.clone(),
            before: None,
            after: None,
            instance: None,
            steps: Vec::new(),
        };
        cycle.record_step(RestartState::Requested, "a restart is requested", now);
        cycle
    }

    /// Merges a request: the most urgent options and the strictest verification apply.
    fn merge_request(&mut self, options: &RestartOptions, now: ClockReading) {
        self.requests = self.requests.saturating_add(1);
        self.deadline =
            self.deadline.min(now.wall.saturating_add(duration_millis(options.deadline)));
        self.when_idle &= options.when_idle;
        self.force |= options.force;
        // `None` compares as less than any value, so it must not win.
        self.verify_bus = match (self.verify_bus, options.verify_bus.map(duration_millis)) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        if self.pid_file.is_none() {
            self.pid_file.clone_from(&options.pid_file);
        }
    }

    /// Changes the state and appends a step.
    pub fn record_step(&mut self, state: RestartState, text: impl Into<String>, now: ClockReading) {
        self.state = state;
        self.text = text.into();
        if self.steps.len() >= MAX_STEPS {
            // The first step holds the start time, so the second is dropped.
            self.steps.remove(1);
        }
        self.steps.push(RestartStep { state, at: now, text: self.text.clone() });
    }

    /// End of the restart.
    pub fn finished_at(&self) -> Option<ClockReading> {
        let last = self.steps.last()?;
        last.state.is_finished().then_some(last.at)
    }
}

/// Paths of the machine that a worker needs, independent of the process that started it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachinePaths {
    /// Root directory of the machine.
    pub root: PathBuf,
    /// State directory of the engine, with its run lock.
    pub engine: PathBuf,
    /// Puppet's state directories, with its locks.
    pub puppet: Vec<PathBuf>,
}

/// All restarts of one target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestartRecord {
    /// The target.
    pub target: RestartTarget,
    /// The machine's paths.
    pub places: MachinePaths,
    /// The current restart, or the last one.
    pub current: RestartCycle,
    /// The restart after the current one, for requests that came too late for it.
    pub next: Option<RestartCycle>,
    /// Finished restarts, oldest first.
    pub past: Vec<RestartCycle>,
}

/// The restart that a request was added to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcceptedRestart {
    /// Identifier of the restart.
    pub id: Uuid,
    /// Whether an earlier request had created the restart.
    pub merged: bool,
}

impl RestartRecord {
    /// A record with its first request.
    pub fn new(
        target: RestartTarget,
        paths: MachinePaths,
        id: Uuid,
        options: &RestartOptions,
        now: ClockReading,
    ) -> Self {
        Self {
            target,
            places: paths,
            current: RestartCycle::new(id, options, now),
            next: None,
            past: Vec::new(),
        }
    }

    /// Adds a request. `id` becomes the identifier of a new restart if the request cannot merge into an existing one.
    pub fn add_request(
        &mut self,
        id: Uuid,
        options: &RestartOptions,
        now: ClockReading,
    ) -> AcceptedRestart {
        if self.current.state.is_finished() {
            self.begin_cycle(RestartCycle::new(id, options, now));
            return AcceptedRestart { id, merged: false };
        }
        let open = if self.current.state.accepts_requests() {
            Some(&mut self.current)
        } else {
            self.next.as_mut()
        };
        if let Some(cycle) = open {
            cycle.merge_request(options, now);
            return AcceptedRestart { id: cycle.id, merged: true };
        }
        self.next = Some(RestartCycle::new(id, options, now));
        AcceptedRestart { id, merged: false }
    }

    /// Moves on to the next restart if the current one is finished. Returns whether there is work left.
    pub fn advance_cycle(&mut self) -> bool {
        if !self.current.state.is_finished() {
            return true;
        }
        match self.next.take() {
            Some(next) => {
                self.begin_cycle(next);
                true
            }
            None => false,
        }
    }

    /// Whether no work is left.
    pub fn is_idle(&self) -> bool {
        self.current.state.is_finished() && self.next.is_none()
    }

    /// The restart with this identifier.
    pub fn find_cycle(&self, id: Uuid) -> Option<&RestartCycle> {
        let others = self.next.iter().chain(&self.past);
        std::iter::once(&self.current).chain(others).find(|cycle| cycle.id == id)
    }

    fn begin_cycle(&mut self, cycle: RestartCycle) {
        self.past.push(std::mem::replace(&mut self.current, cycle));
        let excess = self.past.len().saturating_sub(MAX_PAST_CYCLES);
        self.past.drain(..excess);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use proptest::prelude::*;
    use uuid::Uuid;

    use super::{ClockReading, MachinePaths, RestartOptions, RestartRecord, RestartState};
    use crate::restart::target::RestartTarget;

    fn at(seconds: u64) -> ClockReading {
        ClockReading { wall: 1_700_000_000_000 + seconds * 1000, uptime: seconds * 1000 }
    }

    fn record() -> RestartRecord {
        let places = MachinePaths { root: "/".into(), engine: "/e".into(), puppet: Vec::new() };
        let target = RestartTarget::parse_unit("puppet").unwrap();
        RestartRecord::new(target, places, Uuid::from_u128(1), &RestartOptions::default(), at(0))
    }

    #[test]
    fn merged_requests_use_the_most_urgent_options() {
        let mut record = record();
        let wish = RestartOptions {
            deadline: Duration::from_mins(1),
            verify_bus: Some(Duration::from_secs(9)),
            pid_file: Some("/p".into()),
            ..RestartOptions::default()
        };
        record.add_request(Uuid::from_u128(2), &wish, at(10));
        let forced = RestartOptions {
            force: true,
            when_idle: false,
            verify_bus: Some(Duration::from_secs(5)),
            ..RestartOptions::default()
        };
        record.add_request(Uuid::from_u128(3), &forced, at(20));
        let cycle = &record.current;
        assert_eq!(cycle.requests, 3);
        assert_eq!(cycle.deadline, at(70).wall);
        assert!(cycle.force && !cycle.when_idle);
        assert_eq!(cycle.verify_bus, Some(5000));
        assert_eq!(cycle.pid_file, Some("/p".into()));
    }

    #[test]
    fn late_request_gets_a_separate_restart() {
        for late in [RestartState::Locked, RestartState::Restarting, RestartState::Verifying] {
            let mut record = record();
            record.current.record_step(late, "", at(1));
            let second = record.add_request(Uuid::from_u128(2), &RestartOptions::default(), at(2));
            assert!(!second.merged && second.id == Uuid::from_u128(2));
            let third = record.add_request(Uuid::from_u128(3), &RestartOptions::default(), at(3));
            assert!(third.merged && third.id == second.id);
            assert!(record.advance_cycle(), "the first restart is still current");
            assert_eq!(record.current.id, Uuid::from_u128(1));
            record.current.record_step(RestartState::Ok, "", at(4));
            assert!(!record.is_idle() && record.advance_cycle());
            assert_eq!((record.current.id, record.current.requests), (second.id, 2));
            assert!(record.find_cycle(Uuid::from_u128(1)).is_some());
        }
    }

    #[derive(Debug, Clone, Copy)]
    enum Happening {
        Asked,
        Goes(RestartState),
        Turns,
    }

    fn happening() -> impl Strategy<Value = Happening> {
        prop_oneof![
            4 => Just(Happening::Asked),
            4 => prop_oneof![
                Just(RestartState::Waiting), Just(RestartState::Locked), Just(RestartState::Restarting), Just(RestartState::Verifying),
                Just(RestartState::Ok), Just(RestartState::Failed), Just(RestartState::Timeout),
            ].prop_map(Happening::Goes),
            2 => Just(Happening::Turns),
        ]
    }

    proptest! {
        /// For any sequence of events: each request belongs to exactly one restart that begins after it, and the record stays small.
        #[test]
        fn each_request_belongs_to_one_restart_that_begins_after_it(story in prop::collection::vec(happening(), 0..80)) {
            let mut record = record();
            let mut asked: BTreeMap<Uuid, u32> = BTreeMap::from([(Uuid::from_u128(1), 1)]);
            for (number, happening) in story.into_iter().enumerate() {
                let now = at(number as u64);
                match happening {
                    Happening::Asked => {
                        let entered = record.add_request(Uuid::from_u128(number as u128 + 2), &RestartOptions::default(), now);
                        let cycle = record.find_cycle(entered.id).unwrap();
                        prop_assert!(cycle.state.accepts_requests());
                        *asked.entry(entered.id).or_default() += 1;
                        prop_assert_eq!(entered.merged, asked[&entered.id] > 1);
                        prop_assert_eq!(cycle.requests, asked[&entered.id]);
                    }
                    Happening::Goes(state) if !record.current.state.is_finished() => record.current.record_step(state, "x", now),
                    Happening::Goes(_) => {}
                    Happening::Turns => {
                        let more = record.advance_cycle();
                        prop_assert_eq!(more, !record.is_idle());
                    }
                }
                prop_assert!(record.past.len() <= 8 && record.current.steps.len() <= 64);
                let text = serde_json::to_string(&record).unwrap();
                prop_assert_eq!(&serde_json::from_str::<RestartRecord>(&text).unwrap(), &record);
            }
        }
    }
}
