//! Data read for one resource and reused for the following ones: user and group names, installed
//! packages, file buckets.
//!
//! Lives as long as its [`ResourceContext`](crate::ResourceContext). Data from a file is valid until the file's fingerprint changes.

use std::path::Path;

use muster_system::{FileMetadata, System, SystemError};

use crate::providers::account_names::AccountNameCache;
use crate::providers::bucket::BucketRegistry;
use crate::providers::package::list_cache::PackageListCache;

/// All cached data.
#[derive(Debug, Default)]
pub(crate) struct EvaluationCache {
    /// passwd and group.
    pub(crate) names: AccountNameCache,
    /// Output of the package managers.
    pub(crate) packages: PackageListCache,
    /// File buckets declared in the catalog.
    pub(crate) buckets: BucketRegistry,
}

/// Identifies an unchanged file; `None` if the file does not exist.
pub(crate) type FileFingerprint = Option<FileMetadata>;

/// Current fingerprint of a file. Ignores the access time.
pub(crate) fn file_fingerprint(
    system: &dyn System,
    path: &Path,
) -> Result<FileFingerprint, SystemError> {
    Ok(system.metadata(path)?.map(|found| FileMetadata {
        accessed: found.modified,
        ..found
    }))
}
