//! Resource types implemented by external programs: a JSON description, and a program that exchanges JSON on standard input and
//! output.
//!
//! - `description`: the attributes a type accepts. `resource_type`: adapts the program to the engine's type trait.
//!
//! The program only reads and changes state. Comparison, ordering, noop, refreshes and reports are done by the engine. The protocol is
//! documented in docs/guides/resource-types.md.

mod description;
mod resource_type;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use muster_base::error_chain;
use muster_system::error::found_or_none;
use muster_system::{FileEntryKind, System, SystemError};

use crate::error::{EngineError, Result};
use crate::resource_type::ResourceType;
use crate::type_source::{ResourceTypeSource, is_type_name};
use description::ExternalTypeDescription;
use resource_type::ExternalResourceType;

pub const TYPES_DIRECTORY: &str = "/etc/muster/types.d";

const MAX_DESCRIPTION_BYTES: u64 = 256 * 1024;

/// The types described in a directory, one file `NAME.json` each.
#[derive(Debug)]
pub struct ExternalTypes {
    system: Arc<dyn System>,
    directory: PathBuf,
    /// Last description read for each name, and the resulting type.
    types: Mutex<BTreeMap<String, CachedExternalType>>,
}

/// The bytes of a description, and the type built from them.
type CachedExternalType = (Vec<u8>, Arc<ExternalResourceType>);

impl ExternalTypes {
    /// Types of the given directory. The description is read again on each lookup.
    pub fn new(system: Arc<dyn System>, directory: impl Into<PathBuf>) -> Self {
        Self { system, directory: directory.into(), types: Mutex::default() }
    }

    fn load_type(
        &self,
        name: &str,
    ) -> Result<Option<Arc<ExternalResourceType>>, ExternalTypeError> {
        let path = self.directory.join(format!("{name}.json"));
        let read = found_or_none(self.system.read_file(&path, MAX_DESCRIPTION_BYTES));
        let Some(bytes) = read? else { return Ok(None) };
        self.check_trusted_file(&path)?;
        let mut types = self.types.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((cached_bytes, found)) = types.get(name)
            && *cached_bytes == bytes
        {
            return Ok(Some(Arc::clone(found)));
        }
        let invalid = |problem| ExternalTypeError::File { path: path.clone(), problem };
        let description: ExternalTypeDescription = serde_json::from_slice(&bytes)
            .map_err(|error| invalid(format!(" is not a type description: {error}")))?;
        let program = self.directory.join(&description.program);
        self.check_trusted_file(&program)?;
        let found = ExternalResourceType::new(name, &description, program)
            .map_err(|problem| invalid(format!(": {problem}")))?;
        let found = Arc::new(found);
        types.insert(name.to_owned(), (bytes, Arc::clone(&found)));
        Ok(Some(found))
    }

    /// The program runs with the privileges of this process, so other users must not be able to change its files.
    fn check_trusted_file(&self, path: &Path) -> Result<(), ExternalTypeError> {
        let problem = match self.system.metadata(path)? {
            None => " does not exist",
            // A link is followed, and its target checked.
            Some(found) if !matches!(found.kind, FileEntryKind::File | FileEntryKind::Link) => {
                " is not a regular file"
            }
            Some(_) => return Ok(self.system.check_protected(path)?),
        };
        Err(ExternalTypeError::File { path: path.to_owned(), problem: problem.to_owned() })
    }
}

#[derive(Debug, thiserror::Error)]
enum ExternalTypeError {
    #[error(transparent)]
    System(#[from] SystemError),
    #[error("{}{problem}", path.display())]
    File { path: PathBuf, problem: String },
}

impl ResourceTypeSource for ExternalTypes {
    fn type_named(&self, name: &str) -> Result<Option<Arc<dyn ResourceType>>> {
        if !is_type_name(name) {
            return Ok(None);
        }
        match self.load_type(name) {
            Ok(found) => Ok(found.map(|found| found as Arc<dyn ResourceType>)),
            Err(error) => Err(EngineError::Unavailable {
                name: name.to_owned(),
                problem: format!("its description cannot be used: {}", error_chain(&error)),
            }),
        }
    }
}
