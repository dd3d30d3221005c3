//! `remove`: a file, a link, or an empty directory; one that is not empty only when the caller says so.

use std::path::Path;
use std::sync::Arc;

use muster_api::system::FileKind;
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
            let path = fence.admit(&*system, &input.path, false)?;
            let refused = |why: &str| {
                let message = format!("{} is not removed: {why}", path.display());
                Err(ActionError::invalid(message))
            };
            let Some(found) = system.metadata(&path).map_err(|error| failed(&error))? else {
                return Ok(Changed { changed: false });
            };
            if found.kind != FileKind::Directory {
                system.remove_file(&path).map_err(|error| failed(&error))?;
                return Ok(Changed { changed: true });
            }
            if path.parent().is_none_or(|parent| parent == Path::new("/")) {
                return refused("it is the root directory, or right below it");
            }
            let names = system.read_dir(&path).map_err(|error| failed(&error))?;
            if !names.is_empty() && !input.recursive {
                return refused("it is not empty, and recursive was not given");
            }
            if fence.is_crossed(&path) {
                return refused("something below it may not be touched on this node");
            }
            system.remove_tree(&path).map_err(|error| failed(&error))?;
            Ok(Changed { changed: true })
        })
        .await?
    }
}
