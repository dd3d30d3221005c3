//! Programs that have nothing to do with us any more: left behind for good, or become in our place.
//!
//! Unlike [`crate::System::run_command`] nobody reads what such a program prints, nobody waits for it, and nothing of ours is open in it: no
//! pipe can end it, and neither can the end of the service, the run or the terminal that we belong to.

use std::convert::Infallible;
use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
#[expect(
    clippy::disallowed_types,
    reason = "this is the place of the room that leaves processes behind"
)]
use std::process::Command as Process;
use std::process::Stdio;

use nix::sys::signal::{SigSet, Signal};
use nix::unistd::execv;

use crate::error::SystemError;

/// There when systemd is the first process.
const SYSTEMD_MARKER: &str = "/run/systemd/system";
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// What tells a daemon that it is to change itself, and must not end one that is not yet ready to hear it.
const BLOCKED_SIGNALS: [Signal; 2] = [Signal::SIGUSR2, Signal::SIGHUP];

/// Leaves a program behind, in a session of its own, and under systemd in a unit of its own with this name, because the end of our
/// unit would be its end too. Returns when it is on its way; whether it does what it should is for others to see.
pub fn launch_detached(unit: &str, argv: &[String]) -> Result<(), SystemError> {
    let mut last = None;
    for way in launch_commands(Path::new(SYSTEMD_MARKER).exists(), unit, argv) {
        match run_launcher(&way) {
            Ok(()) => return Ok(()),
            Err(error) => last = Some(error),
        }
    }
    Err(SystemError::Start {
        program: argv.first().cloned().unwrap_or_default(),
        source: last.unwrap_or_else(|| io::Error::from(io::ErrorKind::InvalidInput)),
    })
}

/// The commands to try, the best first.
fn launch_commands(has_systemd: bool, unit: &str, argv: &[String]) -> Vec<Vec<String>> {
    let with = |words: &[&str]| -> Vec<String> {
        let words = words.iter().map(|word| (*word).to_owned());
        words.chain(argv.iter().cloned()).collect()
    };
    let unit = format!("--unit={unit}");
    // What the program starts and leaves running outlives it, as it would outside of systemd.
    let service = [
        "systemd-run",
        "--quiet",
        "--collect",
        "--no-block",
        "--property=KillMode=process",
        &unit,
        "--",
    ];
    let mut ways = Vec::new();
    if has_systemd {
        ways.push(with(&service));
    }
    ways.push(with(&["setsid", "--fork", "--"]));
    ways
}

#[expect(
    clippy::disallowed_types,
    reason = "this is the place of the room that leaves processes behind"
)]
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
        Err(io::Error::other(format!("`{program}` ended with {status}")))
    }
}

/// Becomes another program, with the same process number and environment; returns only when that fails.
///
/// `SIGUSR2` and `SIGHUP` wait until the new program says by [`unblock_signals`] that it is ready for them: in between they would end it.
pub fn replace_process(
    program: &Path,
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<Infallible, SystemError> {
    let failed = |source: io::Error| SystemError::Start {
        program: program.display().to_string(),
        source,
    };
    let text = |word: OsString| CString::new(word.into_vec()).map_err(io::Error::other);
    let path = text(program.as_os_str().to_owned()).map_err(failed)?;
    let argv: Vec<CString> = arguments
        .into_iter()
        .map(text)
        .collect::<Result<_, _>>()
        .map_err(failed)?;
    let told: SigSet = BLOCKED_SIGNALS.into_iter().collect();
    told.thread_block().map_err(|errno| failed(errno.into()))?;
    let become_it = execv(&path, &argv).map_err(|errno| failed(errno.into()));
    // Still here: nobody else will hear them.
    unblock_signals();
    become_it
}

/// Hears the signals that waited while this program was being started by [`replace_process`]. On the program's first thread, when it
/// knows what to do about them.
pub fn unblock_signals() {
    let told: SigSet = BLOCKED_SIGNALS.into_iter().collect();
    // The kernel refuses only masks that are none.
    let _ = told.thread_unblock();
}

#[cfg(test)]
mod tests {
    use super::launch_commands;

    #[test]
    fn a_unit_of_its_own_is_tried_first_where_there_is_systemd() {
        let argv = ["rpcd".to_owned(), "restart-worker".to_owned()];
        let ways_there = launch_commands(true, "muster-restart-1", &argv);
        assert_eq!(
            ways_there
                .iter()
                .map(|way| way.join(" "))
                .collect::<Vec<_>>(),
            [
                "systemd-run --quiet --collect --no-block --property=KillMode=process --unit=muster-restart-1 -- rpcd restart-worker",
                "setsid --fork -- rpcd restart-worker",
            ]
        );
        assert_eq!(launch_commands(false, "x", &argv), ways_there[1..]);
    }
}
