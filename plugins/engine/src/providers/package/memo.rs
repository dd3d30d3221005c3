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
pub(crate) struct Installed(RefCell<BTreeMap<String, Known>>);

impl Installed {
    /// Forgets everything: packages were changed.
    pub(crate) fn forget(&self) {
        self.0.borrow_mut().clear();
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
    let looking = EngineError::during(resource, format!("looking at {}", database.display()));
    let now = seen(cx.system, database).map_err(looking)?;
    let known = &cx.memo.packages.0;
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
