//! What the package tools said, so that a run asks each of them once and not for every package.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::Package;
use crate::error::EngineError;
use crate::memo::{Seen, seen};
use crate::resource::Resource;
use crate::resource_type::Cx;

/// A list, and how the database was when it was made.
type Known = (Seen, Arc<Vec<Package>>);

/// Lists by the tool that they came from.
#[derive(Debug, Default)]
pub(crate) struct Installed {
    lists: RefCell<BTreeMap<String, Known>>,
    /// Which of several names a program has on this machine, by the names.
    programs: RefCell<BTreeMap<String, String>>,
}

impl Installed {
    /// Forgets everything: packages were changed.
    pub(crate) fn forget(&self) {
        self.lists.borrow_mut().clear();
        self.programs.borrow_mut().clear();
    }

    /// What was remembered by [`Self::remember_program`].
    pub(super) fn program(&self, names: &[&str]) -> Option<String> {
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
pub(crate) fn list(
    cx: &Cx<'_>,
    resource: &Resource,
    tool: &str,
    database: &Path,
    ask: impl FnOnce() -> Result<Vec<Package>, EngineError>,
) -> Result<Arc<Vec<Package>>, EngineError> {
    // A program that is only known by its name has no database that we would know of.
    let now = if database.is_absolute() {
        let looking = EngineError::during(resource, format!("looking at {}", database.display()));
        seen(cx.system, database).map_err(looking)?
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
