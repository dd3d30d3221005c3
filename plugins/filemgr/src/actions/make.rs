//! `touch` and `mkdir`: an empty file, or a new time for one that is there; a directory.

use std::sync::Arc;

use muster_api::system::{Attributes, Command, FileKind};
use muster_api::{Action, ActionError, Context};

use super::{Changed, File};
use crate::fence::{Fence, failed};

pub(crate) struct Touch(pub(crate) Arc<Fence>);
pub(crate) struct Mkdir(pub(crate) Arc<Fence>);

impl Action for Touch {
    const NAME: &'static str = "touch";
    type Input = File;
    type Output = Changed;

    async fn run(&self, cx: &Context, input: File) -> Result<Changed, ActionError> {
        let (fence, system) = (Arc::clone(&self.0), Arc::clone(&cx.system));
        cx.blocking(move |cancel| {
            let path = fence.admit(&*system, &input.path, true)?;
            if system
                .metadata(&path)
                .map_err(|error| failed(&error))?
                .is_none()
            {
                system
                    .write(&path, b"", &Attributes::default())
                    .map_err(|error| failed(&error))?;
                return Ok(Changed { changed: true });
            }
            let path = path
                .to_str()
                .ok_or_else(|| ActionError::invalid("the path is not UTF-8"))?;
            let mut command = Command::new(["touch", "-c", "--", path]);
            command.cancel = cancel;
            let output = system.run(&command).map_err(|error| failed(&error))?;
            if output.success() {
                return Ok(Changed { changed: true });
            }
            Err(ActionError::failed(output.text().trim().to_owned()))
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
            let path = fence.admit(&*system, &input.path, true)?;
            match system.metadata(&path).map_err(|error| failed(&error))? {
                Some(found) if found.kind == FileKind::Directory => Ok(Changed { changed: false }),
                Some(_) => {
                    let message = format!("{} is there, and no directory", path.display());
                    Err(ActionError::failed(message))
                }
                None => {
                    let made = system.create_dir(&path, &Attributes::default());
                    made.map_err(|error| failed(&error))?;
                    Ok(Changed { changed: true })
                }
            }
        })
        .await?
    }
}
