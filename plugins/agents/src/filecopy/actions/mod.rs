//! The actions: those that receive a file, and those that send one.

pub(crate) mod fetch;
pub(crate) mod receive;

use muster_api::ActionError;
use muster_api::system::FileEntryKind;
use muster_api::system::confined::{ConfinedEntry, ConfinedFile};

use crate::path_policy::AdmittedPath;

/// Opens a regular file; `None` if nothing exists at the path.
fn open_file(admitted: &AdmittedPath) -> Result<Option<ConfinedFile>, ActionError> {
    let found = admitted.entry.as_ref().map(ConfinedEntry::status).transpose()?.flatten();
    let path = admitted.path.display();
    match found.map(|found| found.metadata.kind) {
        None => Ok(None),
        Some(FileEntryKind::File) => admitted.open_target(),
        Some(FileEntryKind::Directory) => {
            Err(ActionError::failed(format!("{path} is a directory")))
        }
        Some(_) => Err(ActionError::failed(format!("{path} is not a regular file"))),
    }
}
