//! The actions of `filemgr`, one file for each action or pair of actions.

pub(crate) mod create;
pub(crate) mod list;
pub(crate) mod read;
pub(crate) mod remove;
pub(crate) mod status;

use muster_api::system::FileEntryKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The input of an action on one path.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct FilePathInput {
    path: String,
}

/// The input of an action that changes one path.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct FileChangeInput {
    path: String,
    noop: Option<bool>,
}

/// Whether something was changed, or would be with `noop`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct FileChangeOutput {
    changed: bool,
}

fn kind_name(kind: FileEntryKind) -> &'static str {
    match kind {
        FileEntryKind::File => "file",
        FileEntryKind::Directory => "directory",
        FileEntryKind::Link => "link",
        FileEntryKind::Other => "other",
    }
}
