//! Runs the programs of checks: as the configured user, a limited number at a time, each within its timeout.

use std::sync::Arc;
use std::time::Duration;

use muster_api::base::{describe_exit, error_chain, unix_millis_now};
use muster_api::system::command::CancelFlag;
use muster_api::system::passwd::{find_group, find_user};
use muster_api::system::{Command, CommandOutput, System, SystemError};
use muster_api::wire::Millis;
use muster_api::{ActionError, CallContext};
use muster_contract::nrpe::{PluginOutput, RunCommandOutput, UNKNOWN_EXIT_CODE};
use tokio::sync::Semaphore;
use tokio::time::timeout_at;

use crate::nrpe::command_table::{CommandTable, CommandTableCache};
use crate::nrpe::options::NrpeOptions;
use crate::nrpe::schedule::orphans::OWNER_VARIABLE;

/// Most bytes of a plugin's output that are read.
const MAX_OUTPUT_BYTES: usize = 64 * 1024;
/// What NRPE sets in the environment of checks. Plugins print several lines only if the first one is set.
const NRPE_ENVIRONMENT: [(&str, &str); 2] =
    [("NRPE_MULTILINESUPPORT", "1"), ("NRPE_PROGRAMVERSION", "4.1.0")];

/// Clones share the limits.
#[derive(Debug, Clone)]
pub(crate) struct CheckRunner(Arc<CheckRunnerInner>);

#[derive(Debug)]
struct CheckRunnerInner {
    options: NrpeOptions,
    table: CommandTableCache,
    slots: Semaphore,
}

#[derive(Debug)]
pub(crate) struct ScheduledRun {
    /// The command of `nrpe.cfg`.
    pub(crate) command: String,
    /// Its time limit, which begins when it gets a slot.
    pub(crate) timeout: Duration,
    /// Names the daemon in the environment of the program.
    pub(crate) owner: String,
    pub(crate) cancel: CancelFlag,
}

/// The user and the group of a check, by name or number.
#[derive(Debug)]
struct CheckAccount {
    user: Option<String>,
    group: Option<String>,
}

/// What a program needs besides its arguments.
struct ProgramLimits {
    account: CheckAccount,
    timeout: Duration,
    cancel: CancelFlag,
    owner: Option<String>,
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

    pub(crate) async fn load_table(
        &self,
        cx: &CallContext,
    ) -> Result<Arc<CommandTable>, ActionError> {
        let runner = self.clone();
        cx.run_blocking_in_context(move |cx| Ok(runner.0.table.load(&*cx.system)?)).await
    }

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
        let account = self.account(table);
        let timeout = self.timeout().min(cx.time_left());
        let name = name.to_owned();
        cx.run_blocking_in_context(move |cx| {
            let cancel = cx.cancel_flag.clone();
            let limits = ProgramLimits { account, timeout, cancel, owner: None };
            run_program(&*cx.system, name, argv, limits).ok_or_else(ActionError::cancelled)
        })
        .await
    }

    /// Who runs the checks: the user of the options with its group, or user and group of the configuration of NRPE.
    fn account(&self, table: &CommandTable) -> CheckAccount {
        match &self.0.options.user {
            Some(user) => CheckAccount { user: Some(user.clone()), group: None },
            None => CheckAccount { user: table.user.clone(), group: table.group.clone() },
        }
    }

    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_secs(self.0.options.timeout)
    }

    /// Runs a scheduled check when there is a free slot, and returns its result and when it started; `None` if it was cancelled.
    pub(crate) async fn run_scheduled(
        &self,
        run: ScheduledRun,
        system: Arc<dyn System>,
    ) -> Option<(RunCommandOutput, Millis)> {
        let slot = self.0.slots.acquire().await;
        let _slot = slot.ok()?;
        let started = unix_millis_now();
        let runner = self.clone();
        let ended =
            tokio::task::spawn_blocking(move || runner.run_scheduled_program(run, &*system));
        ended.await.ok()?.map(|output| (output, started))
    }

    fn run_scheduled_program(
        &self,
        run: ScheduledRun,
        system: &dyn System,
    ) -> Option<RunCommandOutput> {
        let ScheduledRun { command, timeout, owner, cancel } = run;
        if cancel.is_cancelled() {
            return None;
        }
        let table = match self.0.table.load(system) {
            Ok(table) => table,
            Err(error) => return Some(unknown_result(&command, error_chain(&error))),
        };
        match self.build_argv(&table, &command, &[]) {
            Ok(argv) => {
                let account = self.account(&table);
                let limits = ProgramLimits { account, timeout, cancel, owner: Some(owner) };
                run_program(system, command, argv, limits)
            }
            Err(refusal) => Some(unknown_result(&command, refusal.into_message())),
        }
    }
}

impl CheckRefusal {
    pub(crate) fn into_message(self) -> String {
        match self {
            Self::Unusable(message) | Self::Arguments(message) => message,
        }
    }
}

/// The result of a check whose state cannot be determined.
pub(crate) fn unknown_result(name: &str, output: String) -> RunCommandOutput {
    RunCommandOutput { output, command: name.to_owned(), ..RunCommandOutput::default() }
}

/// Runs a program; `None` if it was cancelled.
fn run_program(
    system: &dyn System,
    name: String,
    argv: Vec<String>,
    limits: ProgramLimits,
) -> Option<RunCommandOutput> {
    let ProgramLimits { account, timeout, cancel, owner } = limits;
    let mut command = Command::configured(argv);
    command.timeout = Some(timeout);
    command.output_limit = MAX_OUTPUT_BYTES;
    command.cancel = cancel;
    let environment = NRPE_ENVIRONMENT.map(|(name, value)| (name.to_owned(), value.to_owned()));
    command.env.extend(environment);
    command.env.extend(owner.map(|owner| (OWNER_VARIABLE.to_owned(), owner)));
    if let Err(problem) = set_account(&mut command, &account, system) {
        return Some(unknown_result(&name, problem));
    }
    match system.run_command(&command) {
        Ok(output) => Some(read_result(name, &output)),
        Err(SystemError::Timeout { after, .. }) => {
            // A limit that the caller has set has passed in part when the program starts.
            let seconds = after.as_secs_f64().ceil();
            Some(unknown_result(&name, format!("timed out after {seconds}s")))
        }
        Err(SystemError::Cancelled { .. }) => None,
        Err(error) => Some(unknown_result(&name, error_chain(&error))),
    }
}

/// Sets user and group of a check, if this process can change them.
fn set_account(
    command: &mut Command,
    account: &CheckAccount,
    system: &dyn System,
) -> Result<(), String> {
    if !nix::unistd::geteuid().is_root() {
        return Ok(());
    }
    if let Some(user) = &account.user {
        if let Ok(uid) = user.parse() {
            command.uid = Some(uid);
        } else {
            let found = find_user(system, user).map_err(|error| {
                format!("cannot look up the user {user}: {}", error_chain(&error))
            })?;
            let found = found
                .ok_or_else(|| format!("not run: this node has no user {user} in /etc/passwd"))?;
            (command.uid, command.gid) = (Some(found.uid), Some(found.gid));
            let names = ["USER", "LOGNAME"].map(|name| (name.to_owned(), user.clone()));
            command.env.extend(names);
        }
    }
    if let Some(group) = &account.group {
        command.gid = Some(find_gid(group, system)?);
    }
    Ok(())
}

fn find_gid(group: &str, system: &dyn System) -> Result<u32, String> {
    if let Ok(gid) = group.parse() {
        return Ok(gid);
    }
    find_group(system, group)
        .map_err(|error| format!("cannot look up the group {group}: {}", error_chain(&error)))?
        .ok_or_else(|| format!("not run: this node has no group {group} in /etc/group"))
}

/// The result of a program that has ended. As for NRPE, one that writes nothing to standard output says nothing of its state, whatever its exit code.
fn read_result(command: String, output: &CommandOutput) -> RunCommandOutput {
    let is_silent = output.stdout.is_empty();
    // A program that cannot run often writes the reason to standard error only.
    let text = if is_silent { output.combined_text() } else { output.stdout_text() };
    let PluginOutput { text, long_text, perfdata } = PluginOutput::parse(&text);
    let problem = match output.code {
        0..=3 if !is_silent => None,
        code if is_silent => Some(format!("{}, without standard output", describe_exit(code))),
        code => Some(describe_exit(code)),
    };
    let exitcode = if problem.is_some() { UNKNOWN_EXIT_CODE } else { output.code.into() };
    let output = match (problem, text.is_empty()) {
        (Some(problem), true) => problem,
        (Some(problem), false) => format!("{problem}: {text}"),
        (None, _) => text,
    };
    RunCommandOutput { output, long_output: long_text, exitcode, perfdata, command }
}
