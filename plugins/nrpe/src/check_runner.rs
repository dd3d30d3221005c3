//! Runs the programs of checks: as the configured user, a limited number at a time, each within its timeout.

use std::sync::Arc;
use std::time::Duration;

use muster_api::base::error_chain;
use muster_api::system::passwd::find_user;
use muster_api::system::{Command, CommandOutput, System, SystemError};
use muster_api::{ActionError, BlockingContext, CallContext};
use muster_contract::nrpe::{PluginOutput, RunCommandOutput, UNKNOWN_EXIT_CODE};
use tokio::sync::Semaphore;
use tokio::time::timeout_at;

use crate::NrpeOptions;
use crate::command_table::{CommandTable, CommandTableCache};

/// Most bytes of a plugin's output that are read.
const MAX_OUTPUT_BYTES: usize = 64 * 1024;

/// Runs checks. Clones share the limits.
#[derive(Debug, Clone)]
pub(crate) struct CheckRunner(Arc<CheckRunnerInner>);

#[derive(Debug)]
struct CheckRunnerInner {
    options: NrpeOptions,
    table: CommandTableCache,
    slots: Semaphore,
}

/// A check that was not run: the message is an output, too.
#[derive(Debug)]
pub(crate) enum CheckRefusal {
    /// The configuration has no such command, or it cannot be used.
    Unusable(String),
    /// The node does not accept the arguments.
    Arguments(String),
}

impl CheckRunner {
    pub(crate) fn new(options: NrpeOptions) -> Self {
        let slots = Semaphore::new(options.concurrency);
        let table = CommandTableCache::new(options.config.clone());
        Self(Arc::new(CheckRunnerInner { options, table, slots }))
    }

    /// The current commands.
    pub(crate) async fn load_table(
        &self,
        cx: &CallContext,
    ) -> Result<Arc<CommandTable>, ActionError> {
        let runner = self.clone();
        cx.run_blocking_in_context(move |cx| Ok(runner.0.table.load(&*cx.system)?)).await
    }

    /// Program and arguments of a check.
    pub(crate) fn build_argv(
        &self,
        table: &CommandTable,
        name: &str,
        arguments: &[String],
    ) -> Result<Vec<String>, CheckRefusal> {
        let command = table
            .commands
            .get(name)
            .ok_or_else(|| CheckRefusal::Unusable(format!("No such command: {name}")))?;
        let file = self.0.table.file().display();
        if !arguments.is_empty() && !table.allows_arguments {
            let message = format!("arguments are refused: {file} does not set dont_blame_nrpe=1");
            return Err(CheckRefusal::Arguments(message));
        }
        if arguments.iter().any(|argument| argument.contains('\0')) {
            let message = "arguments are refused: one contains a NUL character".to_owned();
            return Err(CheckRefusal::Arguments(message));
        }
        match command {
            Ok(template) => Ok(template.to_argv(arguments)),
            Err(error) => Err(CheckRefusal::Unusable(format!("{name} in {file}: {error}"))),
        }
    }

    /// Runs a check when there is a free slot, and returns its result: every failure of the program is a result with the state UNKNOWN.
    pub(crate) async fn run_check(
        &self,
        cx: &CallContext,
        table: &CommandTable,
        name: &str,
        argv: Vec<String>,
    ) -> Result<RunCommandOutput, ActionError> {
        let Ok(slot) = timeout_at(cx.deadline, self.0.slots.acquire()).await else {
            let count = self.0.options.concurrency;
            return Ok(unknown_result(
                name,
                format!("not run: {count} other checks took all the time"),
            ));
        };
        let _slot = slot.map_err(|error| ActionError::internal_error(error.to_string()))?;
        let options = self.0.options.clone();
        let user = options.user.clone().or_else(|| table.user.clone());
        let timeout = Duration::from_secs(options.timeout).min(cx.time_left());
        let name = name.to_owned();
        cx.run_blocking_in_context(move |cx| run_program(cx, name, argv, (user, timeout))).await
    }
}

/// The result of a check whose state cannot be determined.
pub(crate) fn unknown_result(name: &str, output: String) -> RunCommandOutput {
    RunCommandOutput { output, command: name.to_owned(), ..RunCommandOutput::default() }
}

fn run_program(
    cx: &BlockingContext,
    name: String,
    argv: Vec<String>,
    (user, timeout): (Option<String>, Duration),
) -> Result<RunCommandOutput, ActionError> {
    let mut command = Command::new(argv);
    command.timeout = Some(timeout);
    command.output_limit = MAX_OUTPUT_BYTES;
    command.cancel = cx.cancel_flag.clone();
    if let Err(problem) = set_user(&mut command, user.as_deref(), &*cx.system) {
        return Ok(unknown_result(&name, problem));
    }
    match cx.system.run_command(&command) {
        Ok(output) => Ok(read_result(name, &output)),
        Err(SystemError::Timeout { after, .. }) => {
            // A limit that the caller has set has passed in part when the program starts.
            let seconds = after.as_secs_f64().ceil();
            Ok(unknown_result(&name, format!("timed out after {seconds}s")))
        }
        Err(SystemError::Cancelled { .. }) => Err(ActionError::cancelled()),
        Err(error) => Ok(unknown_result(&name, error_chain(&error))),
    }
}

/// Sets the user of a check, if this process can change it.
fn set_user(command: &mut Command, user: Option<&str>, system: &dyn System) -> Result<(), String> {
    let Some(user) = user.filter(|_| nix::unistd::geteuid().is_root()) else { return Ok(()) };
    if let Ok(uid) = user.parse() {
        command.uid = Some(uid);
        return Ok(());
    }
    let found = find_user(system, user)
        .map_err(|error| format!("cannot look up the user {user}: {}", error_chain(&error)))?
        .ok_or_else(|| format!("not run: this node has no user {user} in /etc/passwd"))?;
    (command.uid, command.gid) = (Some(found.uid), Some(found.gid));
    Ok(())
}

/// The result of a program that has ended.
fn read_result(command: String, output: &CommandOutput) -> RunCommandOutput {
    // A program that cannot run often writes the reason to standard error only.
    let text = if output.stdout.is_empty() { output.combined_text() } else { output.stdout_text() };
    let PluginOutput { text, long_text, perfdata } = PluginOutput::parse(&text);
    let (exitcode, problem) = match output.code {
        code @ 0..=3 => (code.into(), None),
        code if code > 128 => {
            let signal = code - 128;
            (
                UNKNOWN_EXIT_CODE,
                Some(format!("ended by signal {signal}, or exited with code {code}")),
            )
        }
        code => (UNKNOWN_EXIT_CODE, Some(format!("exited with code {code}"))),
    };
    let output = match (problem, text.is_empty()) {
        (Some(problem), true) => problem,
        (Some(problem), false) => format!("{problem}: {text}"),
        (None, true) => "no output".to_owned(),
        (None, false) => text,
    };
    RunCommandOutput { output, long_output: long_text, exitcode, perfdata, command }
}
