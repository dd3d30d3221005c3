//! Schedules: what runs where and when, which times are turns of a schedule, and which node starts next.
//!
//! Pure functions of their arguments: the time is a parameter. The only other input is the time zone database, which [`ScheduleSpec::compile`] reads. Three programs
//! use it: nodes verify that a scheduler's request is one that the schedule's author permits ([`CompiledSchedule::admits`]), the scheduler plans
//! ([`plan_starts`]), and `rpc` shows what will happen.

#![warn(missing_docs)]

mod adaptive;
mod admission;
mod compile;
mod cron;
mod error;
mod interval;
mod load;
mod local_time;
mod open_times;
mod overdue;
mod plan;
mod request;
mod seats;
mod simulate;
mod spec;
mod turns;
mod windows;

pub use adaptive::{AdaptiveLimit, HealthSample, HealthTarget, LimitChange};
pub use admission::{CLOCK_SKEW_MILLIS, LAST_START_GRACE_MILLIS, SlotRefusal, slot_request_id};
pub use compile::CompiledSchedule;
pub use error::ScheduleError;
pub use load::{LoadBin, MAX_LOAD_BINS, load_curve};
pub use open_times::MaintenanceWindows;
pub use overdue::{OverdueNode, find_overdue};
pub use plan::{
    MAX_WAKE_MILLIS, MIN_WAKE_MILLIS, PlanDecision, PlanInput, SchedulePlan, SkipReason,
    plan_starts,
};
pub use request::TurnRequest;
pub use seats::{MAX_SEATS, ScheduleSeat, SeatChanges, SeatList, SeatListError, SeatMove};
pub use simulate::{
    MAX_SIMULATED_STARTS, ScheduleSimulation, SimulatedRun, SimulationInput, simulate_schedule,
};
pub use spec::{
    DEFAULT_CATCH_UP_SECONDS, DEFAULT_PRIORITY, MAX_BLACKOUTS, MAX_CATCH_UP_SECONDS,
    MAX_INTERVAL_SECONDS, MAX_SCHEDULE_BYTES, MAX_SPREAD_SECONDS, MAX_TIMEOUT_SECONDS, MAX_WINDOWS,
    MIN_INTERVAL_SECONDS, ScheduleBlackout, ScheduleSpec,
};
pub use turns::{ScheduleTurn, seat_offset};
