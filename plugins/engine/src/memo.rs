//! What was read of the machine for one resource and holds for the next ones too: names of users and groups, installed
//! packages, file buckets.
//!
//! Nothing here outlives its [`Cx`](crate::Cx). What is kept of a file holds as long as the file is the same one.

use std::path::Path;

use muster_system::{Metadata, System, SystemError};

use crate::providers::bucket::Buckets;
use crate::providers::names::Known;
use crate::providers::package::memo::Installed;

/// Everything that is kept.
#[derive(Debug, Default)]
pub(crate) struct Memo {
    /// passwd and group.
    pub(crate) names: Known,
    /// What the package tools said.
    pub(crate) packages: Installed,
    /// The file buckets of the catalog.
    pub(crate) buckets: Buckets,
}

/// By what a file is known to be unchanged; `None` when it is not there.
pub(crate) type Seen = Option<Metadata>;

/// How the file is now. When it was last looked at does not matter.
pub(crate) fn seen(system: &dyn System, path: &Path) -> Result<Seen, SystemError> {
    Ok(system.metadata(path)?.map(|found| Metadata {
        accessed: found.modified,
        ..found
    }))
}
