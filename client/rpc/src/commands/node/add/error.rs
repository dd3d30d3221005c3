//! Why machines were not added.

use std::io;
use std::path::PathBuf;

use muster_files::files::FileAccessError;
use muster_organisation::OrganisationError;
use muster_organisation::machines::probe::ProbeError;
use muster_organisation::machines::source::ProgramSourceError;
use muster_wire::identity::Identity;

use crate::session::context::{CommandError, CommandExitCode};
use crate::session::remote_shell::RemoteShellError;

/// Why machines were not added, or one of them was not.
#[derive(Debug, thiserror::Error)]
pub enum NodeAddError {
    #[error(transparent)]
    Organisation(#[from] OrganisationError),
    #[error(transparent)]
    Shell(#[from] RemoteShellError),
    #[error(transparent)]
    Probe(#[from] ProbeError),
    #[error(transparent)]
    Source(#[from] ProgramSourceError),
    #[error(transparent)]
    File(#[from] FileAccessError),
    #[error("it has no full host name; use NAME={0}")]
    NoName(String),
    #[error("another machine of the list has the name {0}")]
    SameName(Identity),
    #[error("cannot prepare the files for the machine")]
    Payload(#[source] io::Error),
    #[error("{}, line {line}: {reason}", file.display())]
    HostsFile { file: PathBuf, line: usize, reason: String },
    #[error("without --ssh, name one machine with its full host name, or as NAME=HOST")]
    NotOne,
}

impl CommandError for NodeAddError {
    fn hints(&self) -> Vec<String> {
        match self {
            Self::Shell(error) => error.hints(),
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
