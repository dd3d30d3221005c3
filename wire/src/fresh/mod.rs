//! Whether a request may still begin: young enough, not from the future, and not seen before.
//!
//! Everything is a function of the instants that are given. The file behind [`journal`] belongs to the daemon.

pub mod journal;
pub mod replay;
pub mod ttl;

pub use journal::{JOURNAL_START, SeenRecord};
pub use replay::{DEFAULT_CAPACITY, DualClockInstant, InsertionOutcome, SeenCache};
pub use ttl::{CLOCK_SKEW_MILLIS, StaleRequest, check_freshness, remember_until};
