//! `touch` and `mkdir`: an empty file, or a new time for one that is there; a directory.

use std::sync::Arc;

use muster_api::system::FileKind;
use muster_api::system::confined::ConfinedEntry;
use muster_api::{Action, ActionError, Context};

use super::{Changed, File};
use crate::fence::{AdmittedPath, Fence, failed};

/// Mode of a file that is made.
const FILE_MODE: u32 = 0o644;
/// Mode of a directory that is made.
const DIRECTORY_MODE: u32 = 0o755;

pub(crate) struct Touch(pub(crate) Arc<Fence>);
pub(crate) struct Mkdir(pub(crate) Arc<Fence>);

impl Action for Touch {
    const NAME: &'static str = "touch";
    type Input = File;
    type Output = Changed;

    async fn run(&self, cx: &Context, input: File) -> Result<Changed, ActionError> {
        let (fence, system) = (Arc::clone(&self.0), Arc::clone(&cx.system));
        cx.blocking(move |_| {
            let admitted = fence.admit(&*system, &input.path, true)?;
            if let Some(file) = admitted.open()? {
                if file.status().is_hard_linked() {
                    return Err(hard_linked(&admitted));
                }
                file.set_times_to_now().map_err(|error| failed(&error))?;
            } else {
                let entry = existing_directory(&admitted)?;
                entry
                    .create_file(FILE_MODE)
                    .map_err(|error| failed(&error))?;
            }
            Ok(Changed { changed: true })
        })
        .await?
    }
}

impl Action for Mkdir {
    const NAME: &'static str = "mkdir";
    type Input = File;
    type Output = Changed;

    async fn run(&self, cx: &Context, input: File) -> Result<Changed, ActionError> {
        let (fence, system) = (Arc::clone(&self.0), Arc::clone(&cx.system));
        cx.blocking(move |_| {
            let admitted = fence.admit(&*system, &input.path, true)?;
            let entry = existing_directory(&admitted)?;
            let found = entry.status().map_err(|error| failed(&error))?;
            match found.map(|found| found.metadata.kind) {
                Some(FileKind::Directory) => Ok(Changed { changed: false }),
                Some(_) => Err(ActionError::failed(format!(
                    "{} exists and is not a directory",
                    admitted.path.display()
                ))),
                None => {
                    entry
                        .create_directory(DIRECTORY_MODE)
                        .map_err(|error| failed(&error))?;
                    Ok(Changed { changed: true })
                }
            }
        })
        .await?
    }
}

/// The entry, in a directory that exists.
fn existing_directory(admitted: &AdmittedPath) -> Result<&ConfinedEntry, ActionError> {
    admitted.entry.as_ref().ok_or_else(|| {
        let path = admitted.path.display();
        ActionError::failed(format!("the directory of {path} does not exist"))
    })
}

/// A file with several names may be one of a place that is closed.
fn hard_linked(admitted: &AdmittedPath) -> ActionError {
    let message = format!(
        "{} is not changed: it has more than one hard link",
        admitted.path.display()
    );
    ActionError::denied(message, "plugins.filemgr.hard_link".to_owned())
}
