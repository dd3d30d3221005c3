//! What Puppet leaves on the disk, read with care: summary, report, locks. Nothing here changes anything.

pub(crate) mod activity;
pub(crate) mod report;
pub(crate) mod summary;
pub mod yaml;
