//! The scheduler: requests actions on nodes by schedules, each in the name of the author who signed it.
//!
//! Any number of instances run beside each other. All follow the bucket `SCHEDULES` and answer callers; one is the leader and sends the requests
//! ([`muster_bus::leader`]). A request has an id that is derived from schedule, node and time, and nodes execute an id once, so two leaders, or a leader
//! that was killed, never cause a second run. Nodes accept a request only with the signed schedule that permits it ([`muster_wire::schedule_grant`]).
//!
//! Pure: the crate `muster-schedule` decides when which node runs. `store` reads and writes what is stored. I/O: [`SchedulerService`] follows the bucket,
//! and leads. The agent `schedule` answers callers.

mod actions;
mod active;
mod error;
mod handle;
mod health;
mod node_progress;
mod report;
mod service;
mod store;
mod term;
mod turn;
mod view;

pub use actions::{SchedulerOptions, build_agent};
pub use error::SchedulerError;
pub use handle::{SchedulerContext, SchedulerHandle, TrustSource};
pub use health::HealthOptions;
pub use service::SchedulerService;
