//! The actions of `filemgr`, one file for each action or pair of actions.

pub(crate) mod create;
pub(crate) mod list;
pub(crate) mod read;
pub(crate) mod remove;
pub(crate) mod status;

use muster_api::system::FileEntryKind;

fn kind_name(kind: FileEntryKind) -> &'static str {
    match kind {
        FileEntryKind::File => "file",
        FileEntryKind::Directory => "directory",
        FileEntryKind::Link => "link",
        FileEntryKind::Other => "other",
    }
}
