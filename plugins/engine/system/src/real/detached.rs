//! Starts a program in its own session that outlives this process; its bounded output and its exit code go to a spool.
//!
//! A small shell script around the program does this, so that it works after this process is gone. The script runs outside a scratch root and
//! does not change the user: both apply inside, to the program alone.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
#[expect(
    clippy::disallowed_types,
    reason = "this module starts processes that outlive the daemon"
)]
use std::process::Command as Process;
use std::process::Stdio;
use std::thread;

use nix::errno::Errno;
use nix::sys::signal::{kill, killpg};
use nix::unistd::Pid;

use super::process::PreparedProcess;
use crate::process::{ProcessId, ProcessSpool, ProcessStat, Signal};

/// Arguments: the spool's directory, the limit of each stream in bytes, then the command.
///
/// A separate process reads each stream, keeps the first bytes and drops the rest, so the program never
/// blocks. The readers ignore TERM, so output during termination is kept. The shell catches TERM and continues, because
/// it has to record the exit code.
const SPOOL_SCRIPT: &str = r#"
dir=$1 limit=$2 path=$PATH; shift 2
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
keep() {
  trap '' TERM INT HUP
  if command -v stdbuf >/dev/null; then stdbuf -o0 head -c "$limit"; else head -c "$limit"; fi >"$dir/$1"
  cat >/dev/null
}
echo $$ >"$dir/pid.new" && mv "$dir/pid.new" "$dir/pid"
finish() { echo "$1" >"$dir/exit.new" && mv "$dir/exit.new" "$dir/exit"; }
mkfifo -m 600 "$dir/out.pipe" "$dir/err.pipe" || { finish 125; exit 125; }
keep stdout <"$dir/out.pipe" &
keep stderr <"$dir/err.pipe" &
trap : TERM INT HUP
PATH=$path "$@" >"$dir/out.pipe" 2>"$dir/err.pipe"
code=$?
rm -f "$dir/out.pipe" "$dir/err.pipe"
finish "$code"
wait
"#;

/// Input file of the program; removed once opened.
const INPUT_FILE: &str = "stdin";
/// Files in a spool; the pipes remain if the supervising shell was killed.
const SPOOL_FILES: [&str; 7] = [
    ProcessSpool::EXIT,
    ProcessSpool::PID,
    ProcessSpool::STDOUT,
    ProcessSpool::STDERR,
    INPUT_FILE,
    "out.pipe",
    "err.pipe",
];

#[expect(clippy::disallowed_types, reason = "this module starts processes that outlive the daemon")]
pub(super) fn start_detached(
    prepared: &PreparedProcess,
    input: &[u8],
    spool: &ProcessSpool,
) -> io::Result<ProcessId> {
    if prepared.ids.is_some() {
        let problem = "setpriv of util-linux is not installed";
        return Err(io::Error::other(problem));
    }
    clear_spool(&spool.directory)?;
    let limit = spool.limit.to_string();
    let mut child = Process::new("/usr/bin/setsid")
        .args(["--", "/bin/sh", "-c", SPOOL_SCRIPT, "keeper"])
        .arg(&spool.directory)
        .arg(limit)
        .args(&prepared.argv)
        .env_clear()
        .envs(&prepared.env)
        .current_dir(&prepared.cwd)
        .stdin(open_input(&spool.directory, input)?)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    // The process entry still exists, because the child has not been reaped.
    let started = read_stat(child.id()).map_or(0, |stat| stat.started);
    let id = ProcessId { pid: child.id(), started };
    thread::Builder::new().name("run-reap".to_owned()).spawn(move || drop(child.wait()))?;
    Ok(id)
}

/// Otherwise the exit code of an earlier program would be attributed to this one.
fn clear_spool(directory: &Path) -> io::Result<()> {
    for name in SPOOL_FILES {
        match fs::remove_file(directory.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn open_input(directory: &Path, input: &[u8]) -> io::Result<Stdio> {
    if input.is_empty() {
        return Ok(Stdio::null());
    }
    let path = directory.join(INPUT_FILE);
    let mut file = fs::OpenOptions::new();
    let file = file.write(true).create_new(true).mode(0o600);
    io::Write::write_all(&mut file.open(&path)?, input)?;
    let reader = File::open(&path);
    fs::remove_file(&path)?;
    reader.map(Stdio::from)
}

/// Kernel status of a process; `None` if it does not exist.
fn read_stat(pid: u32) -> Option<ProcessStat> {
    ProcessStat::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Whether this process is still running; a reused pid does not match.
pub(super) fn is_running(process: &ProcessId) -> bool {
    read_stat(process.pid).is_some_and(|stat| stat.started == process.started && stat.is_alive())
}

/// Signals this process, or its group; returns whether it existed.
pub(super) fn signal_process(process: &ProcessId, signal: Signal, group: bool) -> io::Result<bool> {
    if !is_running(process) {
        return Ok(false);
    }
    let pid = i32::try_from(process.pid).map(Pid::from_raw).map_err(io::Error::other)?;
    let result = match group.then(|| killpg(pid, signal)) {
        // A process that was just started may not have created its group yet; then it is the only member.
        None | Some(Err(Errno::ESRCH)) => kill(pid, signal),
        Some(result) => result,
    };
    match result {
        Ok(()) => Ok(true),
        Err(Errno::ESRCH) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
