//! Errors of reading policies. An invalid policy is a finding, not an error.

use std::io;
use std::path::PathBuf;

use muster_wire::filter::FilterError;
use muster_wire::state::NodeFactsError;

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
    #[error("{} has more than {limit} bytes; is it the right file?", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Maximum size in bytes.
        limit: u64,
    },
    /// A directory without a policy.
    #[error("there is no policy in {}", path.display())]
    Nothing {
        /// The directory.
        path: PathBuf,
    },
    /// An invalid inventory file.
    #[error("{} is no inventory of a node: {why}", path.display())]
    Inventory {
        /// The file.
        path: PathBuf,
        /// Why it is invalid.
        why: String,
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
    #[error("--fact {text}: write it like NAME=VALUE, as in os.family=Debian")]
    Fact {
        /// The given text.
        text: String,
        /// The error, if the name is invalid.
        #[source]
        source: Option<FilterError>,
    },
    /// An invalid data source value.
    #[error("--data {text}: write it like SOURCE().OUTPUT=VALUE, as in puppet().enabled=false")]
    Data {
        /// The given text.
        text: String,
        /// The error.
        #[source]
        source: FilterError,
    },
    /// Facts that exceed a node's limits.
    #[error("{what}")]
    Facts {
        /// Their origin.
        what: String,
        /// The error.
        #[source]
        source: NodeFactsError,
    },
}

impl CommandError for PolicyError {
    fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::Nothing { .. } => {
                "name the directory that holds AGENT.policy, as in `rpc policy check ./policies`"
            }
            Self::Inventory { .. } => "`rpc inventory NODE -j > NODE.json` writes one",
            Self::Cases { .. } => "`rpc policy test --help` shows what a test file looks like",
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
