//! Why a query has no answer.

use muster_bus::BucketError;
use muster_catalogs::releases::ReleaseStoreError;
use muster_history::index::IndexError;

/// Why a query has no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum QueryError {
    /// The query, or its answer, is not possible. The text is for the client.
    #[error("{0}")]
    Invalid(String),
    /// Nothing is known of what the path names.
    #[error("{0}")]
    NotFound(String),
    #[error(transparent)]
    Index(#[from] IndexError),
    #[error(transparent)]
    Bucket(#[from] BucketError),
    #[error(transparent)]
    Release(#[from] ReleaseStoreError),
    #[error("an answer cannot be written as JSON")]
    Json(#[from] serde_json::Error),
}

pub(super) type Result<T> = std::result::Result<T, QueryError>;

/// The error of an invalid query.
pub(super) fn invalid<T>(message: impl Into<String>) -> Result<T> {
    Err(QueryError::Invalid(message.into()))
}
