//! One restart, from its first request to its outcome, and who else's request is part of it. Values only: nothing here waits or acts.
//!
//! ```text
//! requested -> waiting -> locked -> restarting -> verifying -> ok | failed
//!                  \-> timeout
//! ```
//!
//! Requests for the same thing merge while a restart is requested or waits. Later ones ask for another restart, after this one: what
//! they want to be read may have been read already.

use std::path::PathBuf;
use std::time::Duration;

use muster_api::system::ProcessId;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::target::Target;

/// How many restarts that are over are remembered of one thing.
const REMEMBERED: usize = 8;
/// How many steps of one restart are.
const STEPS: usize = 64;

/// Where a restart is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Written down.
    Requested,
    /// A run is in progress.
    Waiting,
    /// No run is, and none can begin.
    Locked,
    /// It is being done.
    Restarting,
    /// It is done, and looked at.
    Verifying,
    /// What was to be restarted runs again.
    Ok,
    /// It does not, or is the same as before.
    Failed,
    /// The run did not end in time, and nothing was restarted.
    Timeout,
}

impl State {
    /// Whether nothing more comes of it.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Ok | Self::Failed | Self::Timeout)
    }

    /// Whether another request can still be part of it.
    pub fn takes_more(self) -> bool {
        matches!(self, Self::Requested | Self::Waiting)
    }

    /// The word for it.
    pub fn word(self) -> &'static str {
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

/// How a restart is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    /// Wait until no run is in progress.
    pub when_idle: bool,
    /// How long at most.
    pub deadline: Duration,
    /// Restart all the same when the deadline is over.
    pub force: bool,
    /// How long our own daemon may take afterwards until it answers again; `None`: it does not matter.
    pub verify_bus: Option<Duration>,
    /// Where the thing writes its process number, if nothing else knows.
    pub pid_file: Option<PathBuf>,
}

impl Default for Wish {
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

/// A moment by two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// Milliseconds since 1970, by a clock that may be set.
    pub wall: u64,
    /// Milliseconds since the machine was started.
    pub uptime: u64,
}

/// A change of state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// What it is now.
    pub state: State,
    /// Since when.
    pub at: Moment,
    /// Why, in words.
    pub text: String,
}

/// One restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cycle {
    /// Its name, for those who wait for it.
    pub id: Uuid,
    /// Where it is.
    pub state: State,
    /// What there is to say about it.
    pub text: String,
    /// How many requests it answers.
    pub requests: u32,
    /// When it was first asked for.
    pub requested: Moment,
    /// When waiting ends, in milliseconds since 1970.
    pub deadline: u64,
    /// See [`Wish`].
    pub when_idle: bool,
    /// See [`Wish`].
    pub force: bool,
    /// See [`Wish`]; in milliseconds.
    pub verify_bus: Option<u64>,
    /// See [`Wish`].
    pub pid_file: Option<PathBuf>,
    /// The main process before.
    pub before: Option<ProcessId>,
    /// The main process afterwards.
    pub after: Option<ProcessId>,
    /// The daemon before, when it is the daemon that is restarted.
    pub instance: Option<Uuid>,
    /// How it went so far, the oldest first.
    pub steps: Vec<Step>,
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Cycle {
    /// A new one.
    pub fn new(id: Uuid, wish: &Wish, now: Moment) -> Self {
        let mut cycle = Self {
            id,
            state: State::Requested,
            text: String::new(),
            requests: 1,
            requested: now,
            deadline: now.wall.saturating_add(millis(wish.deadline)),
            when_idle: wish.when_idle,
            force: wish.force,
            verify_bus: wish.verify_bus.map(millis),
            pid_file: wish.pid_file.clone(),
            before: None,
            after: None,
            instance: None,
            steps: Vec::new(),
        };
        cycle.step(State::Requested, "a restart is requested", now);
        cycle
    }

    /// One more request is part of it: the most urgent wish counts, and the strictest look afterwards.
    fn merge(&mut self, wish: &Wish, now: Moment) {
        self.requests = self.requests.saturating_add(1);
        self.deadline = self
            .deadline
            .min(now.wall.saturating_add(millis(wish.deadline)));
        self.when_idle &= wish.when_idle;
        self.force |= wish.force;
        // None is less than any.
        self.verify_bus = match (self.verify_bus, wish.verify_bus.map(millis)) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        if self.pid_file.is_none() {
            self.pid_file.clone_from(&wish.pid_file);
        }
    }

    /// It goes on.
    pub fn step(&mut self, state: State, text: impl Into<String>, now: Moment) {
        self.state = state;
        self.text = text.into();
        if self.steps.len() >= STEPS {
            // The first says when it began, and is kept.
            self.steps.remove(1);
        }
        self.steps.push(Step {
            state,
            at: now,
            text: self.text.clone(),
        });
    }

    /// When it ended.
    pub fn ended(&self) -> Option<Moment> {
        let last = self.steps.last()?;
        last.state.is_over().then_some(last.at)
    }
}

/// What is on the machine that a worker must know, wherever it was started from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Places {
    /// The machine's `/`.
    pub root: PathBuf,
    /// The engine's state, with its run lock.
    pub engine: PathBuf,
    /// Puppet's state directories, with its locks.
    pub puppet: Vec<PathBuf>,
}

/// Everything that is known of the restarts of one thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// What is restarted.
    pub target: Target,
    /// Where.
    pub places: Places,
    /// The restart that goes on, or the last one.
    pub current: Cycle,
    /// The one after it, when somebody asked too late for this one.
    pub next: Option<Cycle>,
    /// Earlier ones, the oldest first.
    pub past: Vec<Cycle>,
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entered {
    /// The restart that it is part of.
    pub id: Uuid,
    /// Whether somebody had asked for it before.
    pub merged: bool,
}

impl Record {
    /// The first request ever.
    pub fn new(target: Target, places: Places, id: Uuid, wish: &Wish, now: Moment) -> Self {
        Self {
            target,
            places,
            current: Cycle::new(id, wish, now),
            next: None,
            past: Vec::new(),
        }
    }

    /// One more request; `id` is its restart's if it is the first of one.
    pub fn enter(&mut self, id: Uuid, wish: &Wish, now: Moment) -> Entered {
        if self.current.state.is_over() {
            self.begin(Cycle::new(id, wish, now));
            return Entered { id, merged: false };
        }
        let open = if self.current.state.takes_more() {
            Some(&mut self.current)
        } else {
            self.next.as_mut()
        };
        if let Some(cycle) = open {
            cycle.merge(wish, now);
            return Entered {
                id: cycle.id,
                merged: true,
            };
        }
        self.next = Some(Cycle::new(id, wish, now));
        Entered { id, merged: false }
    }

    /// Goes on to the next restart when this one is over; tells whether there is anything to do.
    pub fn turn(&mut self) -> bool {
        if !self.current.state.is_over() {
            return true;
        }
        match self.next.take() {
            Some(next) => {
                self.begin(next);
                true
            }
            None => false,
        }
    }

    /// Whether nothing is left to do.
    pub fn is_settled(&self) -> bool {
        self.current.state.is_over() && self.next.is_none()
    }

    /// The restart of that name.
    pub fn find(&self, id: Uuid) -> Option<&Cycle> {
        let others = self.next.iter().chain(&self.past);
        std::iter::once(&self.current)
            .chain(others)
            .find(|cycle| cycle.id == id)
    }

    fn begin(&mut self, cycle: Cycle) {
        self.past.push(std::mem::replace(&mut self.current, cycle));
        let over = self.past.len().saturating_sub(REMEMBERED);
        self.past.drain(..over);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use proptest::prelude::*;
    use uuid::Uuid;

    use super::{Moment, Places, Record, State, Wish};
    use crate::target::Target;

    fn at(seconds: u64) -> Moment {
        Moment {
            wall: 1_700_000_000_000 + seconds * 1000,
            uptime: seconds * 1000,
        }
    }

    fn record() -> Record {
        let places = Places {
            root: "/".into(),
            engine: "/e".into(),
            puppet: Vec::new(),
        };
        let target = Target::unit("puppet").unwrap();
        Record::new(target, places, Uuid::from_u128(1), &Wish::default(), at(0))
    }

    #[test]
    fn the_most_urgent_wish_counts() {
        let mut record = record();
        let wish = Wish {
            deadline: Duration::from_mins(1),
            verify_bus: Some(Duration::from_secs(9)),
            pid_file: Some("/p".into()),
            ..Wish::default()
        };
        record.enter(Uuid::from_u128(2), &wish, at(10));
        let forced = Wish {
            force: true,
            when_idle: false,
            verify_bus: Some(Duration::from_secs(5)),
            ..Wish::default()
        };
        record.enter(Uuid::from_u128(3), &forced, at(20));
        let cycle = &record.current;
        assert_eq!(cycle.requests, 3);
        assert_eq!(cycle.deadline, at(70).wall);
        assert!(cycle.force && !cycle.when_idle);
        assert_eq!(cycle.verify_bus, Some(5000));
        assert_eq!(cycle.pid_file, Some("/p".into()));
    }

    #[test]
    fn a_request_that_comes_too_late_has_a_restart_of_its_own() {
        for late in [State::Locked, State::Restarting, State::Verifying] {
            let mut record = record();
            record.current.step(late, "", at(1));
            let second = record.enter(Uuid::from_u128(2), &Wish::default(), at(2));
            assert!(!second.merged && second.id == Uuid::from_u128(2));
            let third = record.enter(Uuid::from_u128(3), &Wish::default(), at(3));
            assert!(third.merged && third.id == second.id);
            assert!(record.turn(), "goes on with the first");
            assert_eq!(record.current.id, Uuid::from_u128(1));
            record.current.step(State::Ok, "", at(4));
            assert!(!record.is_settled() && record.turn());
            assert_eq!((record.current.id, record.current.requests), (second.id, 2));
            assert!(record.find(Uuid::from_u128(1)).is_some());
        }
    }

    #[derive(Debug, Clone, Copy)]
    enum Happening {
        Asked,
        Goes(State),
        Turns,
    }

    fn happening() -> impl Strategy<Value = Happening> {
        prop_oneof![
            4 => Just(Happening::Asked),
            4 => prop_oneof![
                Just(State::Waiting), Just(State::Locked), Just(State::Restarting), Just(State::Verifying),
                Just(State::Ok), Just(State::Failed), Just(State::Timeout),
            ].prop_map(Happening::Goes),
            2 => Just(Happening::Turns),
        ]
    }

    proptest! {
        /// Whatever happens: who asks is part of a restart that has not begun yet, nobody is forgotten or counted twice, and the
        /// record stays small.
        #[test]
        fn every_request_is_part_of_exactly_one_restart_that_begins_after_it(story in prop::collection::vec(happening(), 0..80)) {
            let mut record = record();
            let mut asked: BTreeMap<Uuid, u32> = BTreeMap::from([(Uuid::from_u128(1), 1)]);
            for (number, happening) in story.into_iter().enumerate() {
                let now = at(number as u64);
                match happening {
                    Happening::Asked => {
                        let entered = record.enter(Uuid::from_u128(number as u128 + 2), &Wish::default(), now);
                        let cycle = record.find(entered.id).unwrap();
                        prop_assert!(cycle.state.takes_more());
                        *asked.entry(entered.id).or_default() += 1;
                        prop_assert_eq!(entered.merged, asked[&entered.id] > 1);
                        prop_assert_eq!(cycle.requests, asked[&entered.id]);
                    }
                    Happening::Goes(state) if !record.current.state.is_over() => record.current.step(state, "x", now),
                    Happening::Goes(_) => {}
                    Happening::Turns => {
                        let more = record.turn();
                        prop_assert_eq!(more, !record.is_settled());
                    }
                }
                prop_assert!(record.past.len() <= 8 && record.current.steps.len() <= 64);
                let text = serde_json::to_string(&record).unwrap();
                prop_assert_eq!(&serde_json::from_str::<Record>(&text).unwrap(), &record);
            }
        }
    }
}
