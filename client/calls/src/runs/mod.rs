//! Puppet runs on many nodes with a concurrency limit: order, schedule, outcomes and a check of the limit.
//!
//! ```text
//! order -> schedule (next node) -> puppet_rollout (requests, replies, silent nodes) -> outcome -> concurrency
//! ```
//!
//! The nodes enforce the limit: each acquires a permit before its run (`muster-permits`). A rollout only keeps enough requests in flight that no
//! permit is idle, but few enough that a stop takes effect soon. Each request carries a run id of its own: for a repeated id a node returns the state
//! of that run and never starts a second one. So a request can be repeated whenever its reply may have been lost, by this process or by a successor.
//!
//! `order`, `schedule`, `outcome` and `concurrency` are pure functions of values; only `puppet_rollout` sends requests.

mod concurrency;
mod in_flight_run;
mod order;
mod outcome;
mod puppet_rollout;

pub use concurrency::{ConcurrencyStats, PermitInterval, measure_concurrency};
pub use order::RunOrder;
pub use outcome::RunOutcome;
pub use puppet_rollout::{PuppetRollout, PuppetRolloutEvent, PuppetRolloutSpec};
