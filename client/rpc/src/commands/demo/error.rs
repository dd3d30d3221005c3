//! What can go wrong with a demonstration, and what to do about it.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use crate::broker::program::BrokerProgramError;
use crate::environment::RPCD;
use crate::files::RpcFileError;
use crate::organisation::OrganisationError;
use crate::organisation::push::PushError;

/// Why the demonstration does not run, or does not end.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// There is no home directory, and none was named.
    #[error("there is no place for the demonstration: neither XDG_CACHE_HOME nor HOME is set")]
    NoPlace,
    /// One is there already.
    #[error("there is a demonstration in {} already", .0.display())]
    Already(PathBuf),
    /// There is something else.
    #[error("{} is not empty; nothing there was touched", .0.display())]
    Occupied(PathBuf),
    /// There is none.
    #[error("{} holds no demonstration; nothing there was touched", .0.display())]
    None(PathBuf),
    /// More than can be processes of one machine.
    #[error("{nodes} nodes would be {nodes} processes; at most {most} are started")]
    TooMany {
        /// How many were asked for.
        nodes: u32,
        /// How many there may be.
        most: u32,
    },
    /// The daemon's program is nowhere.
    #[error("there is no rpcd beside rpc, nor in PATH")]
    NoDaemon,
    /// The variable names something else.
    #[error("{RPCD} is {}, which is no file", .0.display())]
    NamedDaemon(PathBuf),
    /// The organisation could not be made.
    #[error(transparent)]
    Organisation(#[from] OrganisationError),
    /// The broker does not keep what it should.
    #[error(transparent)]
    Stores(#[from] PushError),
    /// The broker's program.
    #[error(transparent)]
    Broker(#[from] BrokerProgramError),
    /// A file.
    #[error(transparent)]
    File(#[from] RpcFileError),
    /// What is recorded of the demonstration cannot be read or written.
    #[error("{} is no record of a demonstration", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// The parser's words.
        #[source]
        source: serde_json::Error,
    },
    /// A program could not be started.
    #[error("cannot start {}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// The system's word.
        #[source]
        source: io::Error,
    },
    /// Where a node reports that it is ready could not be made.
    #[error("cannot listen on {}", path.display())]
    Listen {
        /// The socket.
        path: PathBuf,
        /// The system's word.
        #[source]
        source: io::Error,
    },
    /// A program ended instead of getting ready.
    #[error("{name} ended ({status}) before it was ready; its last words:\n{words}")]
    Ended {
        /// Who.
        name: String,
        /// How.
        status: ExitStatus,
        /// The end of its log.
        words: String,
    },
    /// A program did not get ready.
    #[error("{name} was not ready within {} s; its last words:\n{words}", within.as_secs())]
    Late {
        /// Who.
        name: String,
        /// How long was waited.
        within: Duration,
        /// The end of its log.
        words: String,
    },
    /// Processes that do not end.
    #[error("these processes do not end: {}", join_pids(.0))]
    Survivors(Vec<u32>),
}

impl DemoError {
    /// What the user may do about it.
    pub fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::NoPlace | Self::Occupied(_) => "name another directory with `--dir`",
            Self::Already(_) => "`rpc demo status` shows it, `rpc demo down` ends it",
            Self::None(_) => "`rpc demo up` starts one; `--dir` says where it is",
            Self::TooMany { .. } => "with `--virtual` they are one process",
            Self::NoDaemon => "say where it is with RPCD",
            Self::Ended { .. } | Self::Late { .. } => {
                "everything was stopped; the logs are still there until `rpc demo down`"
            }
            Self::Organisation(error) => return error.hints(),
            Self::Broker(error) => return error.hints(),
            _ => return Vec::new(),
        };
        vec![hint.to_owned()]
    }
}

fn join_pids(pids: &[u32]) -> String {
    pids.iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}
