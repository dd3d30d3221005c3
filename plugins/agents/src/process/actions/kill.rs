//! `kill`: sends a signal to processes, selected by PID or by pattern. With `plan` or `noop` it only lists them.
//!
//! Never signals process 1, the daemon itself, or the daemon's ancestors.

use std::collections::BTreeSet;

use muster_api::base::error_chain;
use muster_api::system::{ProcessId, Signal, System};
use muster_api::{ActionError, BlockingContext, NoState};
use muster_contract::process::{ProcessKillInput, ProcessKillOutput};

use super::{ProcessFilter, read_stat};

/// Most processes that one call signals. A pattern that matches more is treated as a mistake.
const MAX_SIGNALLED: usize = 200;

/// Fails if any process could not be signalled. Runs after all signals were sent, so one error does not stop the others.
fn fail_on_errors(
    output: ProcessKillOutput,
    errors: &[String],
) -> Result<ProcessKillOutput, ActionError> {
    let Some(first) = errors.first() else { return Ok(output) };
    let message = match errors.len() {
        1 => first.clone(),
        count => format!("{first}; and {} more", count - 1),
    };
    Err(ActionError::failed(message).with_output(&output))
}

pub(crate) fn signal_processes(
    _: &NoState,
    cx: &BlockingContext,
    input: ProcessKillInput,
) -> Result<ProcessKillOutput, ActionError> {
    if input.pattern.as_ref().is_none_or(String::is_empty) == input.pid.is_none() {
        return Err(ActionError::invalid_input("set either `pattern` or `pid`"));
    }
    let signal = parse_signal(&input.signal)?;
    let filter = ProcessFilter::parse_inputs(input.pattern.as_deref(), input.user, input.pid)?;
    let ancestors = daemon_ancestors(&*cx.system);
    let mut targets = filter.find_processes(&*cx.system, &cx.cancel_flag)?;
    if let Some(pid) = filter.pid.filter(|pid| ancestors.contains(pid)) {
        return Err(ActionError::invalid_input(format!(
            "process {pid} is the daemon or one of its ancestors, and is not signalled"
        )));
    }
    targets.retain(|target| !ancestors.contains(&target.process.pid));
    if targets.len() > MAX_SIGNALLED {
        return Err(ActionError::invalid_input(format!(
            "{} processes match, but one call signals at most {MAX_SIGNALLED}",
            targets.len()
        )));
    }
    let mut output = ProcessKillOutput {
        matched: targets.len(),
        signalled: 0,
        pids: targets.iter().map(|target| target.process.pid).collect(),
    };
    let mut errors = Vec::new();
    let only_lists = input.plan || input.noop == Some(true);
    for target in targets.iter().filter(|_| !only_lists) {
        // The signal is sent only if the PID still belongs to the process that was matched.
        let process = ProcessId { pid: target.process.pid, started: target.stat.started };
        match cx.system.signal_process(&process, signal, false) {
            Ok(was_running) => output.signalled += usize::from(was_running),
            Err(error) => errors.push(error_chain(&error)),
        }
    }
    fail_on_errors(output, &errors)
}

/// Accepts `TERM`, `SIGTERM` or `term`.
fn parse_signal(name: &str) -> Result<Signal, ActionError> {
    let upper = name.to_ascii_uppercase();
    let full = if upper.starts_with("SIG") { upper } else { format!("SIG{upper}") };
    full.parse().map_err(|_| ActionError::invalid_input(format!("unknown signal `{name}`")))
}

/// The PIDs of process 1, of the daemon, and of its ancestors.
fn daemon_ancestors(system: &dyn System) -> BTreeSet<u32> {
    let mut ancestors = BTreeSet::from([1]);
    let mut next = Some(std::process::id());
    while let Some(pid) = next.filter(|pid| ancestors.insert(*pid)) {
        next = read_stat(system, pid).map(|stat| stat.parent);
    }
    ancestors
}
