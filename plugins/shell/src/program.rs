//! Converts the inputs of a caller into a command of the machine.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use muster_api::ActionError;
use muster_api::system::passwd::find_user;
use muster_api::system::{Command, System};
use schemars::JsonSchema;
use serde::Deserialize;

/// The inputs that `run` and `start` share.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct ShellProgramInput {
    /// Program and arguments.
    command: Option<Vec<String>>,
    /// A text for `/bin/sh -c`.
    script: Option<String>,
    /// The user to run as, if not the daemon's.
    pub(crate) user: Option<String>,
    cwd: Option<String>,
    env: Option<BTreeMap<String, String>>,
    stdin: Option<String>,
}

/// Omits environment and standard input, which may contain passwords.
impl fmt::Debug for ShellProgramInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program")
            .field("argv", &self.argv())
            .field("user", &self.user)
            .field("cwd", &self.cwd)
            .finish_non_exhaustive()
    }
}

impl ShellProgramInput {
    /// Program and arguments, as shown in lists: without environment and standard input.
    pub(crate) fn argv(&self) -> Vec<String> {
        match (&self.command, &self.script) {
            (Some(command), _) => command.clone(),
            (None, Some(script)) => ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
            (None, None) => Vec::new(),
        }
    }

    /// Builds the command for this machine. Blocks, because users are looked up.
    pub(crate) fn build_command(&self, system: &dyn System) -> Result<Command, ActionError> {
        if self.command.is_some() == self.script.is_some() {
            let message = "set either `command` (an array of program and arguments) or `script`";
            return Err(ActionError::invalid_input(message));
        }
        let argv = self.argv();
        let has_nul = |text: &str| text.contains('\0');
        if argv.first().is_none_or(String::is_empty)
            || argv.iter().any(|argument| has_nul(argument))
        {
            let message = "the command is empty or contains a NUL character";
            return Err(ActionError::invalid_input(message));
        }
        let env = self.env.clone().unwrap_or_default();
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
        command.stdin = self.stdin.clone().unwrap_or_default().into_bytes();
        if let Some(cwd) = &self.cwd {
            let cwd = PathBuf::from(cwd);
            if !cwd.is_absolute() {
                let message = format!("cwd {} is not an absolute path", cwd.display());
                return Err(ActionError::invalid_input(message));
            }
            command.cwd = Some(cwd);
        }
        if let Some(user) = &self.user {
            let found = find_user(system, user).map_err(|error| {
                ActionError::failed(format!("cannot look up user {user}: {error}"))
            })?;
            let found = found.ok_or_else(|| {
                ActionError::invalid_input(format!("this node has no user {user} in /etc/passwd"))
            })?;
            (command.uid, command.gid) = (Some(found.uid), Some(found.gid));
        }
        Ok(command)
    }
}
