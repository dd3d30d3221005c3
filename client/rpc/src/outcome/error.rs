//! The error of a command: any typed error that knows its hints and exit code.

use std::error::Error as StdError;
use std::path::PathBuf;
use std::{fmt, io};

use muster_contract::nrpe::CheckState;
use muster_display::printer::PrintError;
use muster_files::files::FileAccessError;

use crate::outcome::exit::CommandExitCode;

/// An error that can end a command.
pub trait CommandError: StdError + Send + Sync + 'static {
    /// The next steps for the user, one line each.
    fn hints(&self) -> Vec<String> {
        Vec::new()
    }

    fn exit_code(&self) -> CommandExitCode {
        CommandExitCode::Local
    }
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug)]
pub struct Error(Box<dyn CommandError>);

impl Error {
    /// The next steps for the user, one line each.
    pub fn hints(&self) -> Vec<String> {
        self.0.hints()
    }

    pub fn exit_code(&self) -> CommandExitCode {
        self.0.exit_code()
    }

    pub fn downcast_ref<E: CommandError>(&self) -> Option<&E> {
        let error: &(dyn StdError + 'static) = &*self.0;
        error.downcast_ref()
    }
}

impl<E: CommandError> From<E> for Error {
    fn from(error: E) -> Self {
        Self(Box::new(error))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source()
    }
}

impl CommandError for FileAccessError {}

impl CommandError for PrintError {
    fn exit_code(&self) -> CommandExitCode {
        if self.is_closed_pipe() { CommandExitCode::Passed } else { CommandExitCode::Local }
    }
}

/// The error of a command that a monitoring system runs. Such a system reads the exit code 1 as WARNING and 0 as OK, so every error but an invalid command line is UNKNOWN: 3.
#[derive(Debug)]
pub struct MonitoringCheckError(Error);

impl fmt::Display for MonitoringCheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for MonitoringCheckError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source()
    }
}

impl MonitoringCheckError {
    /// The error with the exit code of a check.
    pub fn wrap(error: Error) -> Error {
        Self(error).into()
    }
}

impl CommandError for MonitoringCheckError {
    fn hints(&self) -> Vec<String> {
        self.0.hints()
    }

    fn exit_code(&self) -> CommandExitCode {
        match self.0.exit_code() {
            CommandExitCode::Usage => CommandExitCode::Usage,
            _ => CommandExitCode::from_check_state(CheckState::Unknown),
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("cannot start the asynchronous runtime")]
pub struct RuntimeStartError(#[source] pub io::Error);

impl CommandError for RuntimeStartError {}

#[derive(Debug, thiserror::Error)]
pub enum ResultWriteError {
    #[error("cannot write to {}", .0.display())]
    File(PathBuf, #[source] io::Error),
    #[error("cannot encode the result as JSON")]
    Json(#[from] serde_json::Error),
}

impl CommandError for ResultWriteError {}

#[cfg(test)]
mod tests {
    use std::io;

    use muster_display::printer::PrintError;

    use super::{Error, MonitoringCheckError};
    use crate::outcome::exit::CommandExitCode;

    /// Nagios reads 1 as WARNING. A reader that has closed the pipe would be 0, which it reads as OK.
    #[test]
    fn error_of_a_check_is_unknown() {
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::BrokenPipe] {
            let error: Error = PrintError::from(io::Error::from(kind)).into();
            let checked = MonitoringCheckError::wrap(error);
            assert_eq!(checked.exit_code(), CommandExitCode::NoneAnswered, "{kind:?}");
            assert_eq!(checked.to_string(), "cannot write the output");
        }
    }
}
