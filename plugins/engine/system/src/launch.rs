//! Starts programs independent of this process: detached, or replacing this process.
//!
//! Unlike [`crate::System::run_command`], output is not read, the exit is not awaited, and no descriptor is inherited: the
//! program survives closed pipes and the end of the service, run or terminal of this process.

use std::convert::Infallible;
use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
#[expect(
    clippy::disallowed_types,
    reason = "this module starts processes that outlive the daemon"
)]
use std::process::Command as Process;
use std::process::Stdio;

use nix::sys::signal::{SigSet, Signal};
use nix::unistd::execv;

use crate::error::{SystemError, SystemResult};

/// Exists if systemd is the init process.
const SYSTEMD_MARKER: &str = "/run/systemd/system";
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Signals that request an update or reload of the daemon, and would kill a daemon that has no handlers yet.
const BLOCKED_SIGNALS: [Signal; 2] = [Signal::SIGUSR2, Signal::SIGHUP];

/// Starts a detached program in its own session, and under systemd in its own unit with this name, because stopping our
/// unit would otherwise kill it. Returns once it is started; does not check what it does.
pub fn launch_detached(unit: &str, argv: &[String]) -> SystemResult<()> {
    let mut last_error = None;
    for command in launch_commands(Path::new(SYSTEMD_MARKER).exists(), unit, argv) {
        match run_launcher(&command) {
            Ok(()) => return Ok(()),
            Err(error) => last_error = Some(error),
        }
    }
    Err(SystemError::Start {
        program: argv.first().cloned().unwrap_or_default(),
        source: last_error.unwrap_or_else(|| io::Error::from(io::ErrorKind::InvalidInput)),
    })
}

/// The commands to try, in order of preference.
fn launch_commands(has_systemd: bool, unit: &str, argv: &[String]) -> Vec<Vec<String>> {
    let prefixed = |words: &[&str]| -> Vec<String> {
        let words = words.iter().map(|word| (*word).to_owned());
        words.chain(argv.iter().cloned()).collect()
    };
    let unit = format!("--unit={unit}");
    // Processes started by the program outlive it, as they would without systemd.
    let systemd_run = [
        "systemd-run",
        "--quiet",
        "--collect",
        "--no-block",
        "--property=KillMode=process",
        &unit,
        "--",
    ];
    let mut commands = Vec::new();
    if has_systemd {
        commands.push(prefixed(&systemd_run));
    }
    commands.push(prefixed(&["setsid", "--fork", "--"]));
    commands
}

#[expect(clippy::disallowed_types, reason = "this module starts processes that outlive the daemon")]
fn run_launcher(argv: &[String]) -> io::Result<()> {
    let (program, arguments) = argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let status = Process::new(program)
        .args(arguments)
        .env_clear()
        .env("PATH", DEFAULT_PATH)
        .env("LC_ALL", "C")
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    if status.success() {
        Ok(())
    } else {
        Err(io::Error::other(format!("`{program}` failed: {status}")))
    }
}

/// Replaces this process by another program with the same pid and environment; returns only on failure.
///
/// `SIGUSR2` and `SIGHUP` stay blocked until the new program calls [`unblock_signals`]: they would kill it before its handlers are installed.
pub fn replace_process(
    program: &Path,
    arguments: impl IntoIterator<Item = OsString>,
) -> SystemResult<Infallible> {
    let failed =
        |source: io::Error| SystemError::Start { program: program.display().to_string(), source };
    let to_c_string = |word: OsString| CString::new(word.into_vec()).map_err(io::Error::other);
    let path = to_c_string(program.as_os_str().to_owned()).map_err(failed)?;
    let argv: Vec<CString> =
        arguments.into_iter().map(to_c_string).collect::<Result<_, _>>().map_err(failed)?;
    let signals: SigSet = BLOCKED_SIGNALS.into_iter().collect();
    signals.thread_block().map_err(|errno| failed(errno.into()))?;
    let result = execv(&path, &argv).map_err(|errno| failed(errno.into()));
    // The exec failed, so this process must handle them again.
    unblock_signals();
    result
}

/// Unblocks the signals blocked by [`replace_process`]. Call it on the program's first thread, after the handlers are
/// installed.
pub fn unblock_signals() {
    let signals: SigSet = BLOCKED_SIGNALS.into_iter().collect();
    // Fails only for an invalid mask.
    let _ = signals.thread_unblock();
}

#[cfg(test)]
mod tests {
    use super::launch_commands;

    #[test]
    fn tries_a_transient_unit_first_with_systemd() {
        let argv = ["rpcd".to_owned(), "restart-worker".to_owned()];
        let ways_there = launch_commands(true, "muster-restart-1", &argv);
        assert_eq!(
            ways_there.iter().map(|way| way.join(" ")).collect::<Vec<_>>(),
            [
                "systemd-run --quiet --collect --no-block --property=KillMode=process --unit=muster-restart-1 -- rpcd restart-worker",
                "setsid --fork -- rpcd restart-worker",
            ]
        );
        assert_eq!(launch_commands(false, "x", &argv), ways_there[1..]);
    }
}
