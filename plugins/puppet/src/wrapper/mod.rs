//! A ledger of refreshes for an unmodified Puppet: what it logs is read as it grows, and what it forgets is written down here.
//!
//! - [`trace`]: a line of Puppet's log becomes a step. [`relations`]: who notifies whom, by the catalog.
//! - [`interpreter`]: steps become debts and payments; `books` enters them. [`replay`]: a catalog that pays debts.
//!
//! Puppet forgets a refresh when its target is skipped, fails, is in noop, or when Puppet is killed. A log line comes right after
//! each change, and one before each resource, so that even after a kill it is known who was changed, and who may have been.

pub mod interpreter;
pub(crate) mod refresh_tracker;
pub mod relations;
pub mod replay;
pub mod trace;
