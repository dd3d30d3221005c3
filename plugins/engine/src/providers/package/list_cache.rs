//! Cache of package manager output: each tool is queried once per run instead of once per package.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::PackageState;
use crate::error::{DescribeOperation as _, Result};
use crate::resource_type::{BoundResource, FileFingerprint, file_fingerprint};

/// A list, and the fingerprint of the database when it was read.
type CachedPackageList = (FileFingerprint, Arc<Vec<PackageState>>);

#[derive(Debug, Default)]
pub(crate) struct PackageListCache {
    lists: RefCell<BTreeMap<String, CachedPackageList>>,
    /// Resolved program for each list of candidate names.
    pub(super) programs: RefCell<BTreeMap<String, String>>,
}

impl PackageListCache {
    /// Clears the cache after packages were changed.
    pub(crate) fn clear(&self) {
        self.lists.borrow_mut().clear();
        self.programs.borrow_mut().clear();
    }
}

/// The cached list of that tool if nothing was changed by this engine and its database file is unchanged; otherwise
/// calls `query`.
pub(crate) fn cached_list(
    resource: &BoundResource<'_>,
    tool: &str,
    database: &Path,
    query: impl FnOnce() -> Result<Vec<PackageState>>,
) -> Result<Arc<Vec<PackageState>>> {
    // A program known only by name has no known database file.
    let fingerprint = if database.is_absolute() {
        file_fingerprint(resource.cx.system, database)
            .during(resource, format_args!("inspecting {}", database.display()))?
    } else {
        None
    };
    let lists = &resource.cx.cache.packages.lists;
    if let Some((cached_fingerprint, list)) = lists.borrow().get(tool)
        && *cached_fingerprint == fingerprint
    {
        return Ok(Arc::clone(list));
    }
    let list = Arc::new(query()?);
    lists.borrow_mut().insert(tool.to_owned(), (fingerprint, Arc::clone(&list)));
    Ok(list)
}
