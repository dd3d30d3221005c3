//! Errors of writing an inventory.

use std::path::PathBuf;

use muster_client::discovery::inventory::InventoryError;

use crate::error::CommandError;

/// Writing or reading an inventory file failed.
#[derive(Debug, thiserror::Error)]
pub enum InventoryFileError {
    /// The file exists already.
    #[error("{} exists already; use `--update` to rewrite it and keep its groups", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The existing file is not a valid inventory.
    #[error("the inventory in {} cannot be used", path.display())]
    Inventory {
        /// The file.
        path: PathBuf,
        /// Position and cause.
        source: InventoryError,
    },
}

impl CommandError for InventoryFileError {}
