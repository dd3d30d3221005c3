//! A machine that is reached by ssh, or this one: what it is, and the script that changes it.

use std::fs::File;
use std::io::{self, BufWriter, Seek as _, Write as _};
use std::time::Duration;

use muster_organisation::machines::payload::{UNPACK_COMMAND, write_payload};
use muster_organisation::machines::probe::{MachineProbe, PROBE_SCRIPT, ProbeError};
use muster_organisation::machines::source::ChosenProgram;

use crate::session::context::CommandError;
use crate::session::remote_shell::{RemoteShell, RemoteShellError};

/// How long a machine may take to say what it is.
const PROBE_LIMIT: Duration = Duration::from_mins(1);
/// How long an installation may take.
const INSTALL_LIMIT: Duration = Duration::from_mins(10);

#[derive(Debug, thiserror::Error)]
pub enum RemoteMachineError {
    #[error(transparent)]
    Shell(#[from] RemoteShellError),
    #[error(transparent)]
    Probe(#[from] ProbeError),
    #[error("cannot prepare the files for the machine in the directory for temporary files")]
    Files(#[source] io::Error),
}

impl CommandError for RemoteMachineError {
    fn hints(&self) -> Vec<String> {
        match self {
            Self::Shell(error) => error.hints(),
            _ => Vec::new(),
        }
    }
}

/// Asks a machine what it is. Changes nothing there.
pub async fn probe(shell: RemoteShell<'_>) -> Result<MachineProbe, RemoteMachineError> {
    // From standard input: a login shell that is no POSIX shell does not read the script.
    let script = write_input(|file| file.write_all(PROBE_SCRIPT.as_bytes()))?;
    Ok(MachineProbe::parse(&shell.run("sh", Some(script), PROBE_LIMIT).await?)?)
}

/// Runs a script as root, with the program beside it.
pub async fn run_script(
    shell: RemoteShell<'_>,
    script: &str,
    program: &ChosenProgram,
) -> Result<(), RemoteMachineError> {
    let archive = write_input(|file| write_payload(BufWriter::new(file), script, program))?;
    shell.run(UNPACK_COMMAND, Some(archive), INSTALL_LIMIT).await?;
    Ok(())
}

/// The input of a command, in a file without a name: it may contain credentials.
fn write_input(
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> Result<File, RemoteMachineError> {
    let written = || {
        let mut file = tempfile::tempfile()?;
        write(&mut file)?;
        file.rewind()?;
        Ok(file)
    };
    written().map_err(RemoteMachineError::Files)
}
