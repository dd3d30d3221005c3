//! Errors of reading policies. An invalid policy is a finding, not an error.

use std::path::PathBuf;

use muster_filter::FilterError;
use muster_filter::state::NodeFactsError;
use muster_secret::files::FileAccessError;

/// Why policies cannot be evaluated.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// A file or directory cannot be read, or a file is too large.
    #[error(transparent)]
    File(#[from] FileAccessError),
    /// A directory without a policy.
    #[error("{} contains no policy", path.display())]
    NoPolicy {
        /// The directory.
        path: PathBuf,
    },
    /// An invalid inventory file.
    #[error("{} is not a node inventory: {problem}", path.display())]
    Inventory {
        /// The file.
        path: PathBuf,
        /// Why it is invalid.
        problem: String,
    },
    /// An invalid test file.
    #[error("{}: {message}", path.display())]
    Cases {
        /// The file.
        path: PathBuf,
        /// The error and its position.
        message: String,
    },
    /// An invalid fact.
    #[error("`--fact {text}` is not valid; use NAME=VALUE, such as os.family=Debian")]
    Fact {
        /// The given text.
        text: String,
        /// The error, if the name is invalid.
        #[source]
        source: Option<FilterError>,
    },
    /// An invalid data source value.
    #[error(
        "`--data {text}` is not valid; use SOURCE().OUTPUT=VALUE, such as puppet().enabled=false"
    )]
    Data {
        /// The given text.
        text: String,
        /// The error.
        #[source]
        source: FilterError,
    },
    /// Facts that exceed a node's limits.
    #[error("{message}")]
    Facts {
        /// Their origin.
        message: String,
        /// The error.
        #[source]
        source: NodeFactsError,
    },
}
