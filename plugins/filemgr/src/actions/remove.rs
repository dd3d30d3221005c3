//! `remove`: a file, a link, or an empty directory; one that is not empty only when the caller says so.

use std::path::Path;
use std::sync::Arc;

use muster_api::system::{FileKind, SystemError};
use muster_api::{Action, ActionError, Context};
use serde::Deserialize;

use super::Changed;
use crate::fence::{Fence, failed};

pub(crate) struct Remove(pub(crate) Arc<Fence>);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {
    path: String,
    recursive: bool,
}

impl Action for Remove {
    const NAME: &'static str = "remove";
    type Input = Input;
    type Output = Changed;

    async fn run(&self, cx: &Context, input: Input) -> Result<Changed, ActionError> {
        let (fence, system) = (Arc::clone(&self.0), Arc::clone(&cx.system));
        cx.blocking(move |_| {
            // A link is removed, not what it leads to.
            let admitted = fence.admit(&*system, &input.path, false)?;
            let path = &admitted.path;
            let refused = |why: &str| {
                let message = format!("{} is not removed: {why}", path.display());
                Err(ActionError::invalid(message))
            };
            let Some(entry) = &admitted.entry else {
                return Ok(Changed { changed: false });
            };
            let Some(found) = entry.status().map_err(|error| failed(&error))? else {
                return Ok(Changed { changed: false });
            };
            if found.metadata.kind != FileKind::Directory {
                entry.remove(false).map_err(|error| failed(&error))?;
                return Ok(Changed { changed: true });
            }
            if path.parent().is_none_or(|parent| parent == Path::new("/")) {
                return refused("it is the root directory, or right below it");
            }
            if admitted.holds_denied_place() {
                return refused("something below it may not be touched on this node");
            }
            if input.recursive {
                entry.remove_tree().map_err(|error| failed(&error))?;
                return Ok(Changed { changed: true });
            }
            match entry.remove(true) {
                Ok(()) => Ok(Changed { changed: true }),
                Err(error) if is_not_empty(&error) => {
                    refused("it is not empty, and recursive was not given")
                }
                Err(error) => Err(failed(&error)),
            }
        })
        .await?
    }
}

fn is_not_empty(error: &SystemError) -> bool {
    let SystemError::File { source, .. } = error else {
        return false;
    };
    source.kind() == std::io::ErrorKind::DirectoryNotEmpty
}
