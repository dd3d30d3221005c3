//! Runs of Puppet over many nodes, so many at a time: who is asked when, how each ended, and whether the cap was held.
//!
//! ```text
//! order -> schedule (who may be asked now) -> campaign (asks, listens, looks after those who fall silent) -> outcome -> proof
//! ```
//!
//! The cap itself is held by the nodes, which take a permit each before they begin (`muster-permits`). A campaign only keeps enough
//! of them asked that no permit is ever idle, and not so many that stopping it would come too late. Each node is asked for a run of
//! an identity of its own: asked again for the same one, a node tells how that run goes or went, and never runs twice. So a
//! question may be repeated whenever its answer may have been lost, by this process or by one that takes its place.
//!
//! `order`, `schedule`, `outcome` and `proof` are functions of values; `campaign` is all that asks.

mod concurrency;
mod order;
mod outcome;
mod puppet_rollout;
mod schedule;

pub use concurrency::{ConcurrencyStats, PermitInterval, measure_concurrency};
pub use order::RunOrder;
pub use outcome::RunOutcome;
pub use puppet_rollout::{PuppetRollout, PuppetRolloutEvent, PuppetRolloutSpec};
pub use schedule::{PuppetRolloutLimits, PuppetRolloutStopReason, RunSchedule};
