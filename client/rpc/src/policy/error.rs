//! Errors of reading policies. An invalid policy is a finding, not an error.

use std::io;
use std::path::PathBuf;

use muster_filter::FilterError;
use muster_filter::state::NodeFactsError;

use crate::error::CommandError;
use crate::exit::CommandExitCode;

/// Why policies cannot be evaluated.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// A file or directory cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The path.
        path: PathBuf,
        /// The system error.
        #[source]
        source: io::Error,
    },
    /// The file exceeds the size limit.
    #[error("{} has more than {limit} bytes; check that it is the right file", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Maximum size in bytes.
        limit: u64,
    },
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

impl CommandError for PolicyError {
    fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::NoPolicy { .. } => {
                "specify the directory that contains AGENT.policy, as in `rpc policy check ./policies`"
            }
            Self::Inventory { .. } => "create one with `rpc inventory NODE -j > NODE.json`",
            Self::Cases { .. } => "run `rpc policy test --help` for the format of test files",
            _ => return Vec::new(),
        };
        vec![hint.to_owned()]
    }

    fn exit_code(&self) -> CommandExitCode {
        match self {
            Self::Fact { .. } | Self::Data { .. } => CommandExitCode::Usage,
            _ => CommandExitCode::Local,
        }
    }
}
