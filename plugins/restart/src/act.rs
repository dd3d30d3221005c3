//! Restarts: by systemd, by an init script, or by a command; the daemon itself by telling it so.
//!
//! What a script or a command prints goes into files of ours, not into a pipe: a service that inherits it and is started without
//! closing it must not end when the worker does.

use std::fs;
use std::path::Path;
use std::time::Duration;

use muster_api::system::error::chain;
use muster_api::system::process::{LAST_WORDS, wait_until};
use muster_api::system::{Command, Signal, Spool, StateDir, System};

use crate::instance::Instance;
use crate::look::{has_systemd, unit};
use crate::target::Target;

/// How long a restart may take.
const LONGEST: Duration = Duration::from_mins(5);
/// How long it has to end after that.
const GRACE: Duration = Duration::from_secs(5);
/// Bytes that are kept of what it prints.
const KEPT: u64 = 64 * 1024;
/// Longest line of it that is told.
const TOLD: usize = 500;

/// Does it; `Err` says in words why it was not done. `directory` is ours, for what is printed.
pub(crate) fn restart(
    system: &dyn System,
    target: &Target,
    instance: Option<&Instance>,
    directory: &Path,
) -> Result<(), String> {
    if let Some(instance) = instance.filter(|_| target.is_daemon()) {
        return tell_daemon(system, instance);
    }
    match target {
        Target::Unit(name) if has_systemd(system) => by_systemd(system, name),
        Target::Unit(name) => {
            let script = format!("/etc/init.d/{name}");
            spooled(system, vec![script, "restart".to_owned()], directory)
        }
        Target::Command(argv) => spooled(system, argv.clone(), directory),
    }
}

fn tell_daemon(system: &dyn System, instance: &Instance) -> Result<(), String> {
    match system.signal(&instance.process, Signal::SIGUSR2, false) {
        Ok(true) => Ok(()),
        Ok(false) => Err("the daemon ended before it could be told to restart".to_owned()),
        Err(error) => Err(chain(&error)),
    }
}

fn by_systemd(system: &dyn System, name: &str) -> Result<(), String> {
    let words = ["systemctl", "restart", "--", &unit(name)];
    let mut command = Command::new(words);
    command.timeout = Some(LONGEST);
    let output = system.run(&command).map_err(|error| chain(&error))?;
    if output.success() {
        return Ok(());
    }
    let said = output.text();
    Err(ended(&words.join(" "), output.code, &said))
}

/// Runs a program whose children may live on.
fn spooled(system: &dyn System, argv: Vec<String>, directory: &Path) -> Result<(), String> {
    let words = argv.join(" ");
    StateDir::anew(directory).map_err(|error| chain(&error))?;
    let spool = Spool {
        directory: directory.to_owned(),
        limit: KEPT,
    };
    let process = system
        .start(&Command::new(argv), &spool)
        .map_err(|error| chain(&error))?;
    let exit = || -> Option<i32> {
        let text = fs::read_to_string(directory.join(Spool::EXIT)).ok()?;
        text.trim().parse().ok()
    };
    let runs = || system.is_running(&process);
    wait_until(LONGEST, || exit().is_some() || !runs());
    let Some(code) = exit() else {
        if !runs() {
            return Err(format!("`{words}` was killed"));
        }
        stop(system, &process);
        return Err(format!(
            "`{words}` did not end within {} s and was stopped",
            LONGEST.as_secs()
        ));
    };
    if code == 0 {
        return Ok(());
    }
    wait_until(LAST_WORDS, || !runs());
    let read = |name: &str| fs::read(directory.join(name)).unwrap_or_default();
    let said = [read(Spool::STDOUT), read(Spool::STDERR)].concat();
    Err(ended(&words, code, &String::from_utf8_lossy(&said)))
}

fn stop(system: &dyn System, process: &muster_api::system::ProcessId) {
    // Whoever does not hear the first hears the last.
    let _ = system.signal(process, Signal::SIGTERM, true);
    wait_until(GRACE, || !system.is_running(process));
    let _ = system.signal(process, Signal::SIGKILL, true);
}

fn ended(words: &str, code: i32, said: &str) -> String {
    let last = said.lines().rev().find(|line| !line.trim().is_empty());
    let last: String = last.unwrap_or_default().trim().chars().take(TOLD).collect();
    let colon = if last.is_empty() { "" } else { ": " };
    format!("`{words}` ended with code {code}{colon}{last}")
}
