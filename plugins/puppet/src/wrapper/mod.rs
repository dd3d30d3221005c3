//! Keeps a ledger of refreshes for an unmodified Puppet: reads its log while it grows, and records the refreshes that Puppet loses.
//!
//! - [`trace`]: parses a log line into an event. [`relations`]: the notifications of the catalog.
//! - [`interpreter`]: derives owed and made refreshes from events; `refresh_tracker` writes them. [`replay`]: a catalog that makes the owed
//!   refreshes.
//!
//! Puppet loses a refresh when its target is skipped, fails or is in noop, or when Puppet is killed. It logs one line right after each change and one
//! before each resource, so that even after a kill it is known which resources were changed and which one may have been.

pub mod interpreter;
pub(crate) mod refresh_tracker;
pub mod relations;
pub mod replay;
pub mod trace;
