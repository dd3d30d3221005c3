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

mod campaign;
mod order;
mod outcome;
mod proof;
mod schedule;

pub use campaign::{Campaign, Mission, News};
pub use order::Order;
pub use outcome::Outcome;
pub use proof::{Proof, Span, prove};
pub use schedule::{Halt, Schedule, Shape};
