//! What the package tools said, so that a run asks each of them once and not for every package.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::PackageState;
use crate::error::EngineError;
use crate::evaluation_cache::{FileFingerprint, file_fingerprint};
use crate::resource::Resource;
use crate::resource_type::ResourceContext;

/// A list, and how the database was when it was made.
type CachedPackageList = (FileFingerprint, Arc<Vec<PackageState>>);

/// Lists by the tool that they came from.
#[derive(Debug, Default)]
pub(crate) struct PackageListCache {
    lists: RefCell<BTreeMap<String, CachedPackageList>>,
    /// Which of several names a program has on this machine, by the names.
    programs: RefCell<BTreeMap<String, String>>,
}

impl PackageListCache {
    /// Forgets everything: packages were changed.
    pub(crate) fn clear(&self) {
        self.lists.borrow_mut().clear();
        self.programs.borrow_mut().clear();
    }

    /// What was remembered by [`Self::remember_program`].
    pub(super) fn known_program(&self, names: &[&str]) -> Option<String> {
        self.programs.borrow().get(&names.join(" ")).cloned()
    }

    /// This one of the names is installed.
    pub(super) fn remember_program(&self, names: &[&str], found: &str) {
        let mut programs = self.programs.borrow_mut();
        programs.insert(names.join(" "), found.to_owned());
    }
}

/// The list of that tool: what it said before, as long as nothing was changed by us and its database, a file, is as it
/// was; or else what `ask` brings.
pub(crate) fn cached_list(
    cx: &ResourceContext<'_>,
    resource: &Resource,
    tool: &str,
    database: &Path,
    ask: impl FnOnce() -> Result<Vec<PackageState>, EngineError>,
) -> Result<Arc<Vec<PackageState>>, EngineError> {
    // A program that is only known by its name has no database that we would know of.
    let now = if database.is_absolute() {
        let looking = EngineError::during(resource, format!("looking at {}", database.display()));
        file_fingerprint(cx.system, database).map_err(looking)?
    } else {
        None
    };
    let known = &cx.memo.packages.lists;
    if let Some((before, list)) = known.borrow().get(tool)
        && *before == now
    {
        return Ok(Arc::clone(list));
    }
    let list = Arc::new(ask()?);
    known
        .borrow_mut()
        .insert(tool.to_owned(), (now, Arc::clone(&list)));
    Ok(list)
}
