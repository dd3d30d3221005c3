//! Checks the program file on disk before the daemon restarts into it: with a broken upgrade, or a configuration that became invalid, the node would
//! not come back.

use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_api::base::error_chain;
use muster_api::system::real::RealSystem;
use muster_api::system::{Command, System as _};

/// How long the check may take.
const CHECK_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest excerpt of the output in a message.
const MAX_OUTPUT_CHARS: usize = 300;

#[derive(Debug, Clone)]
pub(crate) struct NextDaemon {
    program: PathBuf,
    config_file: PathBuf,
}

/// The next daemon would not start.
#[derive(Debug, thiserror::Error)]
#[error("`{} --check` failed, so rpcd is not restarted: {problem}", program.display())]
pub(crate) struct NextDaemonError {
    program: PathBuf,
    problem: String,
}

impl NextDaemon {
    /// What a restart would run. Call it at the start: an upgrade replaces the file.
    pub(crate) fn for_current_process(config_file: &Path) -> std::io::Result<Self> {
        Ok(Self { program: std::env::current_exe()?, config_file: config_file.to_owned() })
    }

    /// Runs the program with `--check`, which reads everything and changes nothing. Blocks.
    pub(crate) fn check(&self) -> Result<(), NextDaemonError> {
        let (program, config) = (self.program.display(), self.config_file.display());
        let arguments =
            [program.to_string(), "--config".into(), config.to_string(), "--check".into()];
        let mut command = Command::new(arguments);
        command.timeout = Some(CHECK_TIMEOUT);
        command.cwd = std::env::current_dir().ok();
        let problem = match RealSystem::new("/".into()).run_command(&command) {
            Ok(output) if output.is_success() => return Ok(()),
            Ok(output) => {
                let text = output.combined_text();
                let last = text.lines().rev().find(|line| !line.trim().is_empty());
                let last: String =
                    last.unwrap_or_default().chars().take(MAX_OUTPUT_CHARS).collect();
                format!("code {}: {last}", output.code)
            }
            Err(error) => error_chain(&error),
        };
        Err(NextDaemonError { program: self.program.clone(), problem })
    }
}
