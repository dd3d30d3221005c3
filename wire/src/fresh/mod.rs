//! Whether a request may still begin: young enough, not from the future, and not seen before.
//!
//! Everything is a function of the instants that are given. The file behind [`journal`] belongs to the daemon.

pub mod journal;
pub mod replay;
pub mod ttl;

pub use journal::{JOURNAL_START, Record};
pub use replay::{DEFAULT_CAPACITY, Insertion, Now, SeenCache};
pub use ttl::{SKEW, Stale, judge, remember_until};
