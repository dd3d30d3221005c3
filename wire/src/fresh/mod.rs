//! Freshness and replay checks: a request must be recent, not from the future, and not seen before.
//!
//! All functions take the current time as an argument. The daemon owns the file that [`journal`] encodes.

pub mod journal;
pub mod replay;
pub mod ttl;

pub use journal::{JOURNAL_START, SeenRecord};
pub use replay::{DEFAULT_CAPACITY, DualClockInstant, InsertionOutcome, SeenCache};
pub use ttl::{CLOCK_SKEW_MILLIS, StaleRequest, check_freshness, describe_age, remember_until};
