//! Starts an external discovery program and ends it, at its deadline or when the command ends. The client library defines the protocol.
//!
//! The program gets its arguments unchanged (there is no shell), an environment of `PATH` and the protocol's variables, a private directory, and a
//! process group of its own, which is killed at the end.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use muster_base::format_duration;
use muster_calls::discovery::external::{
    DiscoveryReplyError, MAX_REPLY_BYTES, PROTOCOL_VARIABLE, REPLY_VARIABLE, REQUEST_PROTOCOL,
    REQUEST_VARIABLE, parse_reply,
};
use muster_wire::identity::Identity;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _};
#[expect(clippy::disallowed_types, reason = "starts the discovery program")]
use tokio::process::{Child, Command};

use muster_files::files;

use crate::error::FleetRequestError;
use crate::interrupt::run_until_interrupt;
use crate::observer::{RequestEvent, RequestObserver};

/// Maximum bytes of output that are kept; the rest is read and discarded.
const MAX_KEPT_OUTPUT_BYTES: usize = 16 * 1024;

/// Why discovery by a program failed. The first field is the program.
#[derive(Debug, thiserror::Error)]
pub enum DiscoveryProgramError {
    /// It cannot be started.
    #[error("cannot start the discovery program {}", .0.display())]
    Start(PathBuf, #[source] io::Error),
    /// The request or reply file cannot be written or read.
    #[error("cannot exchange files with the discovery program {}", .0.display())]
    Files(PathBuf, #[source] io::Error),
    /// The program exceeded its timeout and was killed.
    #[error("the discovery program {} did not exit within {}", .0.display(), format_duration(*.1))]
    Timeout(PathBuf, Duration),
    /// It failed.
    #[error("the discovery program {} failed: {}", .0.display(), .1)]
    Failed(PathBuf, ExitStatus),
    /// The reply is invalid.
    #[error("the reply of the discovery program {} is not valid", .0.display())]
    Reply(PathBuf, #[source] DiscoveryReplyError),
    /// The reply exceeds the size limit.
    #[error("the reply of the discovery program {} is longer than {MAX_REPLY_BYTES} bytes", .0.display())]
    TooLong(PathBuf),
}

/// Runs the program and returns its nodes.
pub(crate) async fn run_discovery_program(
    command: &[String],
    timeout: Duration,
    request: &Value,
    observer: &dyn RequestObserver,
) -> Result<BTreeSet<Identity>, FleetRequestError> {
    let nodes = run_until_interrupt(exchange_request(command, timeout, request, observer)).await?;
    Ok(nodes?)
}

async fn exchange_request(
    command: &[String],
    timeout: Duration,
    request: &Value,
    observer: &dyn RequestObserver,
) -> Result<BTreeSet<Identity>, DiscoveryProgramError> {
    let program = PathBuf::from(command.first().map_or("", String::as_str));
    let failed = |source| DiscoveryProgramError::Files(program.clone(), source);
    let directory = tempfile::Builder::new().prefix("rpc-discovery-").tempdir().map_err(failed)?;
    let [request_path, reply_path] = ["request", "reply"].map(|name| directory.path().join(name));
    std::fs::write(&request_path, request.to_string()).map_err(failed)?;
    std::fs::write(&reply_path, "").map_err(failed)?;
    let child = spawn_program(command, &request_path, &reply_path, directory.path())
        .map_err(|source| DiscoveryProgramError::Start(program.clone(), source))?;
    let result =
        tokio::time::timeout(timeout, DiscoveryProcessGroup(child).wait_with_output()).await;
    let Ok(exit) = result else {
        return Err(DiscoveryProgramError::Timeout(program, timeout));
    };
    let (status, stdout, stderr) = exit.map_err(failed)?;
    for line in stdout.lines() {
        observer.observe(RequestEvent::ProgramOutput(&program, &line.into()));
    }
    for line in stderr.lines() {
        observer.observe(RequestEvent::ProgramWarning(&program, &line.into()));
    }
    if !status.success() {
        return Err(DiscoveryProgramError::Failed(program, status));
    }
    let text = match files::read_text(&reply_path, MAX_REPLY_BYTES) {
        Ok(text) => text,
        Err(files::FileAccessError::System { source, .. }) => return Err(failed(source)),
        Err(_) => return Err(DiscoveryProgramError::TooLong(program)),
    };
    parse_reply(&text).map_err(|source| DiscoveryProgramError::Reply(program, source))
}

#[expect(clippy::disallowed_types, reason = "starts the discovery program")]
fn spawn_program(
    command: &[String],
    request_path: &Path,
    reply_path: &Path,
    directory: &Path,
) -> io::Result<Child> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let program =
        if program.contains('/') { std::path::absolute(program)? } else { program.into() };
    Command::new(program)
        .args(arguments)
        .args([request_path, reply_path])
        .arg(REQUEST_PROTOCOL)
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .env(REQUEST_VARIABLE, request_path)
        .env(REPLY_VARIABLE, reply_path)
        .env(PROTOCOL_VARIABLE, REQUEST_PROTOCOL)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
}

/// The program and its process group; killed on drop.
struct DiscoveryProcessGroup(Child);

impl DiscoveryProcessGroup {
    /// Waits for the exit, and collects the output.
    async fn wait_with_output(mut self) -> io::Result<(ExitStatus, String, String)> {
        let (out, err) = (self.0.stdout.take(), self.0.stderr.take());
        let (status, out, err) = tokio::join!(
            self.0.wait(),
            read_capped(out, MAX_KEPT_OUTPUT_BYTES),
            read_capped(err, MAX_KEPT_OUTPUT_BYTES)
        );
        Ok((status?, out, err))
    }
}

impl Drop for DiscoveryProcessGroup {
    fn drop(&mut self) {
        // Without a pid the child was already reaped, and its process group id may have been reused.
        let group = self.0.id().and_then(|id| i32::try_from(id).ok());
        let _ = group.map(|id| killpg(Pid::from_raw(id), Signal::SIGKILL));
    }
}

/// Reads the pipe of a program to its end; keeps only the first `limit` bytes.
pub async fn read_capped(pipe: Option<impl AsyncRead + Unpin>, limit: usize) -> String {
    let Some(mut pipe) = pipe else {
        return String::new();
    };
    let mut output = Vec::new();
    let mut buffer = vec![0; 4096];
    while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
        let length = limit.saturating_sub(output.len()).min(count);
        output.extend(buffer.iter().take(length));
    }
    String::from_utf8_lossy(&output).into_owned()
}

#[cfg(test)]
mod tests;
