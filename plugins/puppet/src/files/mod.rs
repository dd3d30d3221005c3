//! Reads the files that Puppet and the engine write: summary, report, locks. Read-only.

pub(crate) mod activity;
pub(crate) mod last_run;
pub(crate) mod report;
pub(crate) mod summary;
pub mod yaml;
