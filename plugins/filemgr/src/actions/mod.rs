//! One file for each action, or for a pair of them.

mod list;
mod make;
mod read;
mod remove;
mod status;

pub(crate) use list::List;
pub(crate) use make::{Mkdir, Touch};
pub(crate) use read::Read;
pub(crate) use remove::Remove;
pub(crate) use status::Status;

use muster_api::system::FileKind;
use serde::{Deserialize, Serialize};

/// The input of an action on one path.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct File {
    path: String,
}

/// Whether something was changed.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Changed {
    changed: bool,
}

fn word(kind: FileKind) -> &'static str {
    match kind {
        FileKind::File => "file",
        FileKind::Directory => "directory",
        FileKind::Link => "link",
        FileKind::Other => "other",
    }
}
