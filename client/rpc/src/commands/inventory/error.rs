//! Why an inventory cannot be written.

use std::path::PathBuf;

use muster_client::discovery::inventory::InventoryError;

use crate::files::RpcFileError;

/// Why nothing came of a file.
#[derive(Debug, thiserror::Error)]
pub enum InventoryFileError {
    /// There is one already.
    #[error("{} is there already; `--update` writes it anew and keeps its groups", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// What is there is no inventory.
    #[error("the inventory in {} cannot be used", path.display())]
    Inventory {
        /// The file.
        path: PathBuf,
        /// Where and why.
        #[source]
        source: InventoryError,
    },
    /// The file.
    #[error(transparent)]
    File(#[from] RpcFileError),
}
