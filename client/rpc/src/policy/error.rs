//! Why policies cannot be looked at. What is wrong with a policy itself is a finding, and no error.

use std::io;
use std::path::PathBuf;

use muster_wire::filter::FilterError;
use muster_wire::state::NodeFactsError;

use crate::exit::CommandExitCode;

/// Why policies cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// A file or directory that was named.
    #[error("cannot read {}", path.display())]
    Read {
        /// The path.
        path: PathBuf,
        /// The system's word.
        #[source]
        source: io::Error,
    },
    /// A file that is larger than any of its kind.
    #[error("{} has more than {limit} bytes; is it the right file?", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Bytes that are read.
        limit: u64,
    },
    /// A directory without a policy.
    #[error("there is no policy in {}", path.display())]
    Nothing {
        /// The directory.
        path: PathBuf,
    },
    /// A file that is no inventory.
    #[error("{} is no inventory of a node: {why}", path.display())]
    Inventory {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A test file that is none.
    #[error("{}: {message}", path.display())]
    Cases {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and where.
        message: String,
    },
    /// A fact that is none.
    #[error("--fact {text}: write it like NAME=VALUE, as in os.family=Debian")]
    Fact {
        /// What was given.
        text: String,
        /// What is wrong with the name, if that is what is wrong.
        #[source]
        source: Option<FilterError>,
    },
    /// A value of a data source that is none.
    #[error("--data {text}: write it like SOURCE().OUTPUT=VALUE, as in puppet().enabled=false")]
    Data {
        /// What was given.
        text: String,
        /// What is wrong with it.
        #[source]
        source: FilterError,
    },
    /// Facts that no node can have.
    #[error("{what}")]
    Facts {
        /// Where they are from.
        what: String,
        /// Why not.
        #[source]
        source: NodeFactsError,
    },
}

impl PolicyError {
    /// Next steps, one line each.
    pub fn hints(&self) -> Vec<String> {
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

    /// How the command ends.
    pub fn exit_code(&self) -> CommandExitCode {
        match self {
            Self::Fact { .. } | Self::Data { .. } => CommandExitCode::Usage,
            _ => CommandExitCode::Local,
        }
    }
}
