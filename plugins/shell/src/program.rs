//! Converts the inputs of a caller into a command of the machine.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use muster_api::ActionError;
use muster_api::system::{Command, System};
use schemars::JsonSchema;
use serde::Deserialize;

/// Largest passwd file that is searched for a user, in bytes.
const MAX_PASSWD_BYTES: u64 = 16 * 1024 * 1024;

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
            (command.uid, command.gid) = look_up_user(system, user)?;
        }
        Ok(command)
    }
}

/// User ID and group ID of a user of the machine.
fn look_up_user(
    system: &dyn System,
    user: &str,
) -> Result<(Option<u32>, Option<u32>), ActionError> {
    let passwd = system
        .read_file(Path::new("/etc/passwd"), MAX_PASSWD_BYTES)
        .map_err(|error| ActionError::failed(format!("cannot look up user {user}: {error}")))?;
    let passwd = String::from_utf8_lossy(&passwd);
    let entry = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == user).then_some(())?;
        let uid = fields.nth(1)?.parse().ok()?;
        Some((Some(uid), Some(fields.next()?.parse().ok()?)))
    });
    entry.ok_or_else(|| {
        ActionError::invalid_input(format!("this node has no user {user} in /etc/passwd"))
    })
}
