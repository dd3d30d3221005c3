//! What was read of the machine for one resource and holds for the next ones too: names of users and groups, installed
//! packages, file buckets.
//!
//! Nothing here outlives its [`Cx`](crate::Cx). What is kept of a file holds as long as the file is the same one.

use std::path::Path;

use muster_system::{FileMetadata, System, SystemError};

use crate::providers::account_names::AccountNameCache;
use crate::providers::bucket::BucketRegistry;
use crate::providers::package::list_cache::PackageListCache;

/// Everything that is kept.
#[derive(Debug, Default)]
pub(crate) struct EvaluationCache {
    /// passwd and group.
    pub(crate) names: AccountNameCache,
    /// What the package tools said.
    pub(crate) packages: PackageListCache,
    /// The file buckets of the catalog.
    pub(crate) buckets: BucketRegistry,
}

/// By what a file is known to be unchanged; `None` when it is not there.
pub(crate) type FileFingerprint = Option<FileMetadata>;

/// How the file is now. When it was last looked at does not matter.
pub(crate) fn file_fingerprint(
    system: &dyn System,
    path: &Path,
) -> Result<FileFingerprint, SystemError> {
    Ok(system.metadata(path)?.map(|found| FileMetadata {
        accessed: found.modified,
        ..found
    }))
}
