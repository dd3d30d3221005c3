//! Starts a program that outlives us, in a session of its own: its output goes into a spool, bounded, and so does its end.
//!
//! A small shell around the program does that, so that it is done when we are gone. It stands outside of a scratch root and
//! does not become another user: both happen inside, to the program alone.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
#[expect(
    clippy::disallowed_types,
    reason = "this is the place of the room that starts processes which outlive us"
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
/// Each stream is read by a process of its own that keeps the first bytes and drops the rest, so that the program never
/// waits. They are deaf to TERM, so that what the program says while it ends is kept. The shell hears TERM and goes on: it
/// has to write down the end.
const SPOOL_SCRIPT: &str = r#"
dir=$1 limit=$2 path=$PATH; shift 2
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
keep() {
  trap '' TERM INT HUP
  if command -v stdbuf >/dev/null; then stdbuf -o0 head -c "$limit"; else head -c "$limit"; fi >"$dir/$1"
  cat >/dev/null
}
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

/// The file from which the program reads its input; gone as soon as it is open.
const INPUT_FILE: &str = "stdin";
/// What a program leaves in its spool, the pipes when its keeper was killed.
const SPOOL_FILES: [&str; 6] = [
    ProcessSpool::EXIT,
    ProcessSpool::STDOUT,
    ProcessSpool::STDERR,
    INPUT_FILE,
    "out.pipe",
    "err.pipe",
];

/// Starts it.
#[expect(
    clippy::disallowed_types,
    reason = "this is the place of the room that starts processes which outlive us"
)]
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
    // It cannot be gone yet: we have not taken notice of its end.
    let started = read_stat(child.id()).map_or(0, |stat| stat.started);
    let id = ProcessId {
        pid: child.id(),
        started,
    };
    thread::Builder::new()
        .name("run-reap".to_owned())
        .spawn(move || drop(child.wait()))?;
    Ok(id)
}

/// Otherwise the end of an earlier program would be taken for the end of this one.
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
    let open = File::open(&path);
    fs::remove_file(&path)?;
    open.map(Stdio::from)
}

/// What the kernel says of a process; `None` when there is none.
fn read_stat(pid: u32) -> Option<ProcessStat> {
    ProcessStat::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Whether this very process still runs.
pub(super) fn is_running(process: &ProcessId) -> bool {
    read_stat(process.pid).is_some_and(|stat| stat.started == process.started && stat.is_alive())
}

/// Signals this very process, or its group; tells whether it was there.
pub(super) fn signal_process(process: &ProcessId, signal: Signal, group: bool) -> io::Result<bool> {
    if !is_running(process) {
        return Ok(false);
    }
    let pid = i32::try_from(process.pid)
        .map(Pid::from_raw)
        .map_err(io::Error::other)?;
    let sent = match group.then(|| killpg(pid, signal)) {
        // Just started, it may not have made its group yet: then it is alone.
        None | Some(Err(Errno::ESRCH)) => kill(pid, signal),
        Some(sent) => sent,
    };
    match sent {
        Ok(()) => Ok(true),
        Err(Errno::ESRCH) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
