//! Errors of the content store.

use std::io;
use std::path::PathBuf;

use muster_wire::catalog::content::{ContentAddress, ContentDefect, ContentEntryError};

use crate::store::BucketError;

/// A result of the content store.
pub(super) type Result<T, E = ContentError> = std::result::Result<T, E>;

/// Errors of the content store.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// The store lacks a file or a part of it, or has other bytes.
    #[error(transparent)]
    Defect(#[from] ContentDefect),
    /// The bucket cannot be read or written.
    #[error(transparent)]
    Bucket(#[from] BucketError),
    /// The file that is to be stored cannot be read.
    #[error("cannot read the file that is to be stored")]
    Source(#[source] io::Error),
    /// The file that is to be stored is too large.
    #[error("cannot store the file")]
    Unstorable(#[source] ContentEntryError),
    /// The file that is to be stored is not the expected one.
    #[error(
        "the file has the SHA-256 {found}, but {expected} was expected: it was changed; compile the catalog again"
    )]
    Changed {
        /// The expected address.
        expected: ContentAddress,
        /// The address of its bytes.
        found: ContentAddress,
    },
    /// The file in the store is larger than the reader accepts.
    #[error("the file {file} has {bytes} bytes; at most {limit} are accepted")]
    TooLarge {
        /// The file.
        file: ContentAddress,
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The fetched file cannot be written.
    #[error("cannot write {}", path.display())]
    Target {
        /// The file.
        path: PathBuf,
        /// The system error.
        #[source]
        source: io::Error,
    },
}
