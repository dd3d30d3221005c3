//! Runs a command on another machine by OpenSSH, or on this one. Host keys are verified by OpenSSH's own files, and no question is asked.

use std::fs::File;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use clap::Args;
use muster_client::read_capped;
use tokio::time::timeout;

use crate::session::context::CommandError;

/// Most bytes of output that are kept.
const MAX_OUTPUT_BYTES: usize = 64 * 1024;
/// Exit code of ssh if it has no connection.
const SSH_FAILED: i32 = 255;

/// How OpenSSH logs in.
#[derive(Debug, Clone, Args)]
pub struct SshLoginArgs {
    /// Option of OpenSSH, as in `ssh_config`: `User=admin`, `IdentityFile=~/.ssh/fleet`; repeatable
    #[arg(short = 'o', long = "ssh-option", value_name = "KEY=VALUE")]
    pub options: Vec<String>,
    /// Accept the host key of a machine that ssh does not know yet; a changed key is refused
    #[arg(long)]
    pub accept_new_host_keys: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum RemoteShellError {
    #[error("cannot run {program}; is OpenSSH's client installed?")]
    Start { program: &'static str, source: io::Error },
    #[error("no answer within {} s", .0.as_secs())]
    Timeout(Duration),
    #[error("cannot log in: {0}")]
    Login(String),
    #[error("{0}")]
    Failed(String),
}

impl CommandError for RemoteShellError {
    fn hints(&self) -> Vec<String> {
        match self {
            Self::Login(text) if text.contains("ost key") => vec![
                "verify the key by connecting once with ssh, or accept new keys with --accept-new-host-keys"
                    .to_owned(),
            ],
            _ => Vec::new(),
        }
    }
}

/// Where commands run.
#[derive(Debug, Clone, Copy)]
pub enum RemoteShell<'a> {
    /// On this machine.
    Local,
    /// At a destination of ssh.
    Ssh(&'a str, &'a SshLoginArgs),
}

impl RemoteShell<'_> {
    /// Runs a command of the shell with this input; returns its standard output. It must exit with 0.
    pub async fn run(
        self,
        command: &str,
        input: Option<File>,
        limit: Duration,
    ) -> Result<String, RemoteShellError> {
        let (program, arguments) = self.arguments(command);
        let mut child = Self::prepare(program, &arguments)
            .stdin(input.map_or_else(Stdio::null, Stdio::from))
            .spawn()
            .map_err(|source| RemoteShellError::Start { program, source })?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let end = async {
            tokio::join!(
                child.wait(),
                read_capped(out, MAX_OUTPUT_BYTES),
                read_capped(err, MAX_OUTPUT_BYTES)
            )
        };
        let Ok((status, out, err)) = timeout(limit, end).await else {
            return Err(RemoteShellError::Timeout(limit));
        };
        let status = status.map_err(|source| RemoteShellError::Start { program, source })?;
        if status.success() { Ok(out) } else { Err(self.failure(status, &err)) }
    }

    #[expect(clippy::disallowed_types, reason = "runs ssh, or a shell on this machine")]
    fn prepare(program: &str, arguments: &[String]) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(program);
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }

    /// The program and its arguments. The destination follows `--`, and OpenSSH takes the first value of an option.
    fn arguments(self, command: &str) -> (&'static str, Vec<String>) {
        let Self::Ssh(destination, login) = self else {
            return ("sh", vec!["-c".to_owned(), command.to_owned()]);
        };
        let keys = if login.accept_new_host_keys { "accept-new" } else { "yes" };
        let settings = [
            "BatchMode=yes".to_owned(),
            format!("StrictHostKeyChecking={keys}"),
            "ConnectTimeout=15".to_owned(),
            "ServerAliveInterval=15".to_owned(),
            "LogLevel=ERROR".to_owned(),
        ];
        let options = settings.iter().chain(&login.options);
        let mut arguments = vec!["-T".to_owned()];
        arguments.extend(options.flat_map(|option| ["-o".to_owned(), option.clone()]));
        arguments.extend(["--".to_owned(), destination.to_owned(), command.to_owned()]);
        ("ssh", arguments)
    }

    fn failure(self, status: ExitStatus, err: &str) -> RemoteShellError {
        let lines: Vec<&str> = err.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let text = match lines.as_slice() {
            [] => status.to_string(),
            [.., before, last] => format!("{before}; {last}"),
            [last] => (*last).to_owned(),
        };
        let is_login = matches!(self, Self::Ssh(..)) && status.code() == Some(SSH_FAILED);
        if is_login { RemoteShellError::Login(text) } else { RemoteShellError::Failed(text) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destination_and_options_cannot_replace_the_check_of_host_keys() {
        let login = SshLoginArgs {
            options: vec!["StrictHostKeyChecking=no".to_owned()],
            accept_new_host_keys: false,
        };
        let (program, arguments) = RemoteShell::Ssh("root@web1", &login).arguments("id");
        assert_eq!(program, "ssh");
        let position = |text: &str| arguments.iter().position(|word| word == text).unwrap();
        assert!(position("StrictHostKeyChecking=yes") < position("StrictHostKeyChecking=no"));
        assert_eq!(arguments[arguments.len() - 3..], ["--", "root@web1", "id"]);
    }

    #[tokio::test]
    async fn error_is_what_the_command_wrote_last() {
        let run = |command| RemoteShell::Local.run(command, None, Duration::from_mins(1));
        assert_eq!(run("echo out; echo err >&2").await.unwrap(), "out\n");
        let error = run("echo one >&2; echo two >&2; echo three >&2; exit 5").await.unwrap_err();
        assert_eq!(error.to_string(), "two; three");
        assert_eq!(run("exit 5").await.unwrap_err().to_string(), "exit status: 5");
    }
}
