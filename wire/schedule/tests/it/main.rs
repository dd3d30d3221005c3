//! Schedules through the crate's interface.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod adaptive;
mod admission;
mod cron;
mod fleet;
mod load;
mod periods;
mod planner;
mod seats;
mod spec;
mod spread;
mod windows;
