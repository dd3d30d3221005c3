//! Decides when a run that was asked for begins, if at all: a fold of events to a state, and the next step from a state and a time.
//!
//! Reads no clock and no file. Times are milliseconds of one clock that does not go back while a daemon lives; random numbers are part of the
//! events, so that the same events give the same state again.

pub mod apply;
pub mod barrier;
#[cfg(test)]
mod barrier_tests;
pub mod delay;
pub mod event;
pub mod next;
#[cfg(test)]
mod properties;
pub mod request;
pub mod state;
#[cfg(test)]
pub(crate) mod tests;
