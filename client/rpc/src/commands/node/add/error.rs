//! Why machines were not added.

use std::io;
use std::path::PathBuf;

use muster_files::files::FileAccessError;
use muster_organisation::machines::host::RemoteHostError;
use muster_organisation::machines::source::ProgramSourceError;
use muster_wire::identity::Identity;

use crate::session::context::{CommandError, CommandExitCode};
use crate::session::remote_machine::RemoteMachineError;

/// Why machines were not added, or one of them was not.
#[derive(Debug, thiserror::Error)]
pub enum NodeAddError {
    #[error(transparent)]
    Machine(#[from] RemoteMachineError),
    #[error(transparent)]
    Source(#[from] ProgramSourceError),
    #[error(transparent)]
    File(#[from] FileAccessError),
    #[error("it has no full host name; use NAME={0}")]
    NoName(String),
    #[error("another machine of the list has the name {0}")]
    SameName(Identity),
    #[error("cannot compress the line for the machine")]
    Line(#[source] io::Error),
    #[error("{}, line {line}", file.display())]
    HostsFile { file: PathBuf, line: usize, source: RemoteHostError },
    #[error("without --ssh, name one machine with its full host name, or as NAME=HOST")]
    NotOne,
}

impl CommandError for NodeAddError {
    fn hints(&self) -> Vec<String> {
        match self {
            Self::Machine(error) => error.hints(),
            _ => Vec::new(),
        }
    }

    fn exit_code(&self) -> CommandExitCode {
        match self {
            Self::NotOne | Self::HostsFile { .. } => CommandExitCode::Usage,
            _ => CommandExitCode::Local,
        }
    }
}
