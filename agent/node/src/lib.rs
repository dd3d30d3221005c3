//! A node, from a signed message to a signed reply. The daemon `rpcd` adds plugins, services and its life cycle.
//!
//! Its layers, from above; each imports only from those below it:
//!
//! - [`pipeline`]: the stages of a request, one file per stage, and the loop that receives requests; start reading there.
//! - [`core`]: the state that the stages share: audit log, journals, counters, health.
//! - [`trust`]: whom the node trusts and how it proves who it is.
//! - [`config`]: reads and checks `rpcd.toml`.
//! - [`machine`]: facts, classes and the state of subsystems.
//! - [`ground`]: files, the clock, shared values, signals.

pub mod config;
pub mod core;
pub mod ground;
pub mod machine;
pub mod pipeline;
pub mod trust;
