//! The events that the planner folds. They are the lines of the journal.

use muster_api::system::process::ProcessId;
use muster_api::wire::Millis;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::barrier::BarrierEnd;
use super::request::AgainRequest;
use super::state::AgainState;

/// A run that goes on: its id if this daemon started it, and the process that applies the catalog.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunInProgress {
    /// The id of a run of the agent `puppet`.
    pub run: Option<Uuid>,
    /// A process without a lock: its end is the end of the run.
    pub process: Option<ProcessId>,
}

/// A run that has ended: the cause of another one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CausingRun {
    /// The id of a run of the agent `puppet`; `None` for a run that was started outside.
    pub run: Option<Uuid>,
    /// The `transaction_uuid` of its report.
    pub transaction: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedRun {
    pub cause: CausingRun,
    /// Whether it changed nothing, by option or by configuration.
    pub noop: bool,
    /// A digest of its events: resource, property and new value of each. `None` if there is no report.
    pub digest: Option<String>,
    /// How it ended, for people.
    pub outcome: String,
    /// When it ended, by the wall clock; `None` if only its end was observed.
    #[serde(default)]
    pub ended_at: Option<Millis>,
}

/// Why a run that was asked for does not begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SuppressReason {
    /// The limits of the node did not allow it before the deadline.
    Budget,
    /// Successive runs have made the same changes.
    Oscillating,
    /// The run that asked, or the request, changes nothing.
    Noop,
    /// An operator cancelled it.
    Cancelled,
    Deadline,
    Disabled,
    /// The pending run has too many conditions on other nodes.
    Conditions,
}

impl SuppressReason {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Budget => "budget",
            Self::Oscillating => "oscillating",
            Self::Noop => "noop",
            Self::Cancelled => "cancelled",
            Self::Deadline => "deadline",
            Self::Disabled => "disabled",
            Self::Conditions => "conditions",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum AgainEvent {
    /// All earlier events, folded.
    Snapshot { state: Box<AgainState> },
    Requested {
        /// When it was accepted.
        at: Millis,
        request: Box<AgainRequest>,
        /// The run that goes on.
        during: Option<RunInProgress>,
        /// A random number for the delay.
        seed: u64,
    },
    /// The run that asked has ended, or the run that was asked for.
    RunEnded {
        at: Millis,
        run: Box<EndedRun>,
        /// A random number for the delay.
        seed: u64,
    },
    /// Written before the run is started.
    Started { at: Millis, run: Uuid },
    /// The run that was started has not run.
    NotRun {
        at: Millis,
        problem: String,
        /// The pause before it is pending again, in milliseconds.
        retry_after: Millis,
    },
    /// The pending run will not begin.
    Suppressed {
        at: Millis,
        reason: SuppressReason,
        /// By whom, if by an operator.
        by: Option<String>,
    },
    BarriersEnded {
        at: Millis,
        /// Their ids. Those that are unknown, or have ended before, change nothing.
        ids: Vec<Uuid>,
        end: BarrierEnd,
    },
    /// A run without effect has reported that it would have asked for another one.
    WouldRun {
        at: Millis,
        transaction: Option<String>,
        /// The resources that would have asked.
        requesters: Vec<String>,
    },
    /// An operator has cleared limits and the state `oscillating`.
    Reset { at: Millis, by: String },
    /// The broker has these fleet events.
    Published { ids: Vec<Uuid> },
}
