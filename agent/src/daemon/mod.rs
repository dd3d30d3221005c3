//! The life of a daemon: checks, assembly, start, reload, restart and stop.

pub mod assemble;
pub mod check;
pub(crate) mod delivery;
pub(crate) mod deployment;
pub mod lifecycle;
pub(crate) mod programs;
pub(crate) mod state_lock;
mod supervisor;
pub mod upgrade;
