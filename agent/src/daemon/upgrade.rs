//! The program of the next start: which one it is, whether it would start, and how it takes the place of this one.
//!
//! With a broken program, or a configuration that became invalid, the node would not come back.

use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_agents::config::ProgramStore;
use muster_api::base::{error_chain, unix_millis_now};
use muster_api::system::real::RealSystem;
use muster_api::system::{Command, System as _, SystemError, launch};
use muster_node::config::Config;

/// How long the check may take.
const CHECK_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest excerpt of the output in a message.
const MAX_OUTPUT_CHARS: usize = 300;
/// Programs that are tried: the selected one, the earlier one, the installed one.
const MAX_ATTEMPTS: usize = 3;
/// The daemon's unit.
pub(crate) const UNIT: &str = "rpcd.service";
/// The hidden command of [`guard_trial`](crate::commands::guard::guard_trial).
pub const GUARD_COMMAND: &str = "guard-upgrade";

#[derive(Debug, Clone)]
pub(crate) struct NextDaemon {
    programs: ProgramStore,
    config_file: PathBuf,
}

/// The next daemon would not start.
#[derive(Debug, thiserror::Error)]
#[error("`{} --check` failed, so rpcd is not restarted: {problem}", program.display())]
pub(crate) struct NextDaemonError {
    program: PathBuf,
    pub(crate) problem: String,
}

impl NextDaemon {
    pub(crate) fn new(programs: ProgramStore, config_file: &Path) -> Self {
        Self { programs, config_file: config_file.to_owned() }
    }

    /// Runs the program of the next start with `--check`, which reads everything and changes nothing. Blocks.
    pub(crate) fn check(&self) -> Result<(), NextDaemonError> {
        self.check_program(&self.programs.next_program())
    }

    /// The same with another program.
    pub(crate) fn check_program(&self, program: &Path) -> Result<(), NextDaemonError> {
        let (path, config) = (program.display(), self.config_file.display());
        let arguments = [path.to_string(), "--config".into(), config.to_string(), "--check".into()];
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
        Err(NextDaemonError { program: program.to_owned(), problem })
    }
}

/// The programs of this daemon; `None` if its state directory cannot be found.
pub fn find_programs(config_file: &Path) -> std::io::Result<Option<ProgramStore>> {
    let running = std::env::current_exe()?;
    Ok(Config::find_state_directory(config_file).map(|state| ProgramStore::new(&state, running)))
}

/// Runs the selected program in place of this one. Returns if this one is to run, with what was wrong.
pub fn start_selected(programs: &ProgramStore, config_file: &Path) -> Vec<String> {
    // A program that an upgrade brought was chosen by the installed one.
    if programs.runs_upgrade() {
        return Vec::new();
    }
    run_next(programs, config_file, NextProgram::Other)
}

/// Replaces this process by the next daemon, which may have the same program. Returns only on failure.
pub fn restart(programs: &ProgramStore, config_file: &Path) -> String {
    run_next(programs, config_file, NextProgram::Any).join("; ")
}

/// Returns what was wrong, if this program is to run or if no other one can be started.
fn run_next(programs: &ProgramStore, config_file: &Path, next: NextProgram) -> Vec<String> {
    let mut problems = Vec::new();
    while problems.len() < MAX_ATTEMPTS {
        match become_next(programs, config_file, next) {
            Ok(()) => break,
            Err(error) => problems.push(error),
        }
    }
    problems
}

/// When the process is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NextProgram {
    /// If the next program is not the one that runs.
    Other,
    Any,
}

/// Returns without an error only if this program is to run. After an error, the installed program is selected.
fn become_next(
    programs: &ProgramStore,
    config_file: &Path,
    next: NextProgram,
) -> Result<(), String> {
    let choice = programs.choose(unix_millis_now()).map_err(|error| error_chain(&error))?;
    if let Some(until) = choice.trial_until
        && let Err(error) = start_guard(programs, config_file, until)
    {
        // The trial still ends at the next start, and by the program itself.
        tracing::warn!(error = error_chain(&error), "cannot watch the program on trial");
    }
    if next == NextProgram::Other && choice.program == programs.running() {
        return Ok(());
    }
    let Err(error) = launch::replace_process(&choice.program, std::env::args_os());
    let problem = error_chain(&error);
    if choice.program != programs.running() {
        programs.refuse_selected(&problem).map_err(|error| error_chain(&error))?;
    }
    Err(problem)
}

/// Starts a process that ends a program which hangs, or which does not end its trial by itself.
fn start_guard(programs: &ProgramStore, config_file: &Path, until: u64) -> Result<(), SystemError> {
    let config = std::path::absolute(config_file).unwrap_or_else(|_| config_file.to_owned());
    let mut arguments = vec![
        programs.running().display().to_string(),
        "--config".to_owned(),
        config.display().to_string(),
        GUARD_COMMAND.to_owned(),
        std::process::id().to_string(),
    ];
    arguments.extend(runs_as_service().then(|| "--service".to_owned()));
    launch::launch_detached(&format!("muster-upgrade-guard-{until}"), &arguments)
}

/// Whether systemd started this process as the daemon's service, and not a user by hand.
fn runs_as_service() -> bool {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    groups.lines().any(|group| group.rsplit('/').next() == Some(UNIT))
}
