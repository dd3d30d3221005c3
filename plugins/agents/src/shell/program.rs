//! Converts the inputs of a caller into a command of the machine.

use std::path::PathBuf;

use muster_api::ActionError;
use muster_api::system::passwd::find_user;
use muster_api::system::{Command, System};
use muster_contract::shell::ShellProgramInput;

/// Program and arguments, as shown in lists: without environment and standard input.
pub(crate) fn list_arguments(input: &ShellProgramInput) -> Vec<String> {
    match (&input.command, &input.script) {
        (Some(command), _) => command.clone(),
        (None, Some(script)) => ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
        (None, None) => Vec::new(),
    }
}

/// Builds the command for this machine. Blocks, because users are looked up.
pub(crate) fn build_command(
    input: &ShellProgramInput,
    system: &dyn System,
) -> Result<Command, ActionError> {
    if input.command.is_some() == input.script.is_some() {
        let message = "set either `command` (an array of program and arguments) or `script`";
        return Err(ActionError::invalid_input(message));
    }
    let argv = list_arguments(input);
    let has_nul = |text: &str| text.contains('\0');
    if argv.first().is_none_or(String::is_empty) || argv.iter().any(|argument| has_nul(argument)) {
        let message = "the command is empty or contains a NUL character";
        return Err(ActionError::invalid_input(message));
    }
    let env = input.env.clone().unwrap_or_default();
    for (name, value) in &env {
        if name.is_empty() || name.contains(['=', '\0']) || has_nul(value) {
            let message = format!(
                "`{}` is not a valid variable name, or its value contains a NUL character",
                name.escape_debug()
            );
            return Err(ActionError::invalid_input(message));
        }
    }
    let mut command = Command::new(argv);
    command.env = env;
    command.stdin = input.stdin.clone().unwrap_or_default().into_bytes();
    if let Some(cwd) = &input.cwd {
        let cwd = PathBuf::from(cwd);
        if !cwd.is_absolute() {
            let message = format!("cwd {} is not an absolute path", cwd.display());
            return Err(ActionError::invalid_input(message));
        }
        command.cwd = Some(cwd);
    }
    if let Some(user) = &input.user {
        let found = find_user(system, user)
            .map_err(|error| ActionError::failed(format!("cannot look up user {user}: {error}")))?;
        let found = found.ok_or_else(|| {
            ActionError::invalid_input(format!("this node has no user {user} in /etc/passwd"))
        })?;
        (command.uid, command.gid) = (Some(found.uid), Some(found.gid));
    }
    Ok(command)
}
