//! Reads the files that Puppet writes: summary, report, locks. Read-only.

pub(crate) mod activity;
pub(crate) mod report;
pub(crate) mod summary;
pub mod yaml;
