//! Errors of reading policies. An invalid policy is a finding, not an error.

use std::path::PathBuf;

use muster_files::files::FileAccessError;
use muster_filter::FilterError;
use muster_filter::state::NodeFactsError;

/// Why policies cannot be evaluated.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// A file or directory cannot be read, or a file is too large.
    #[error(transparent)]
    File(#[from] FileAccessError),
    /// A directory without a policy.
    #[error("{} contains no policy", .0.display())]
    NoPolicy(PathBuf),
    /// An invalid document of a node, and why.
    #[error("{} is not what `rpc node NODE -j` prints: {}", .0.display(), .1)]
    SavedNode(PathBuf, String),
    /// An invalid test file, and the error with its position.
    #[error("{}: {}", .0.display(), .1)]
    Cases(PathBuf, String),
    /// An invalid fact, and the error if its name is invalid.
    #[error("`--fact {0}` is not valid; use NAME=VALUE, such as os.family=Debian")]
    Fact(String, #[source] Option<FilterError>),
    /// An invalid data source value.
    #[error("`--data {0}` is not valid; use SOURCE().OUTPUT=VALUE, such as puppet().enabled=false")]
    Data(String, #[source] FilterError),
    /// Facts that exceed a node's limits, with their origin.
    #[error("{0}")]
    Facts(String, #[source] NodeFactsError),
}
