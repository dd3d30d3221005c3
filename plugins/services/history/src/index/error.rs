//! Why the index cannot be used.

use std::io;

use muster_wire::compressed::CompressedJsonError;

/// Why the index cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    #[error("the index of the history cannot be read or written")]
    Database(#[from] rusqlite::Error),
    #[error("cannot create the index of the history")]
    File(#[from] io::Error),
    #[error("a run in the index cannot be compressed or read")]
    Run(#[from] CompressedJsonError),
    #[error("a value in the index is no JSON")]
    Json(#[from] serde_json::Error),
}
