//! Starts the program that knows the nodes, and ends it: with its deadline, or with ours. What is said between us is the
//! client library's business.
//!
//! The program gets its words as they are (there is no shell), an environment of `PATH` and the protocol's variables, a directory
//! that only we can read, and a process group of its own, of which nothing is left when we are done.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use muster_client::discovery::external::{
    DiscoveryReplyError, MAX_REPLY_BYTES, PROTOCOL_VARIABLE, REPLY_VARIABLE, REQUEST_PROTOCOL,
    REQUEST_VARIABLE, parse_reply,
};
use muster_wire::identity::Identity;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _};
#[expect(clippy::disallowed_types, reason = "this is the file that starts it")]
use tokio::process::{Child, Command};

use super::error::FleetRequestError;
use super::interrupt::InterruptListener;
use super::locate::LocateError;
use crate::files;
use crate::printer::OutputPrinter;
use crate::render::printable;

/// So much of what it says is kept, in bytes; the rest is read and forgotten.
const MAX_KEPT_OUTPUT_BYTES: usize = 16 * 1024;

/// Why the program told nothing.
#[derive(Debug, thiserror::Error)]
pub enum DiscoveryProgramError {
    /// It cannot be started.
    #[error("cannot start the discovery program {}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// The system's word.
        #[source]
        source: io::Error,
    },
    /// The files between us.
    #[error("cannot exchange files with the discovery program {}", program.display())]
    Files {
        /// The program.
        program: PathBuf,
        /// The system's word.
        #[source]
        source: io::Error,
    },
    /// It took too long, and was ended.
    #[error("the discovery program {} did not end within {} s", program.display(), within.as_secs_f64())]
    Slow {
        /// The program.
        program: PathBuf,
        /// How long it was given.
        within: Duration,
    },
    /// It failed.
    #[error("the discovery program {} failed: {status}", program.display())]
    Failed {
        /// The program.
        program: PathBuf,
        /// How it ended.
        status: ExitStatus,
    },
    /// Its reply is none.
    #[error("the discovery program {} told no nodes", program.display())]
    Reply {
        /// The program.
        program: PathBuf,
        /// Why.
        #[source]
        source: DiscoveryReplyError,
    },
    /// Its reply is longer than the limit.
    #[error("the reply of the discovery program {} is longer than {MAX_REPLY_BYTES} bytes", program.display())]
    TooLong {
        /// The program.
        program: PathBuf,
    },
}

/// The nodes that the program tells.
pub async fn run_discovery_program(
    command: &[String],
    timeout: Duration,
    request: &Value,
    printer: &OutputPrinter,
) -> Result<BTreeSet<Identity>, FleetRequestError> {
    let mut interrupt = InterruptListener::listen();
    tokio::select! {
        nodes = exchange_request(command, timeout, request, printer) => Ok(nodes.map_err(LocateError::from)?),
        () = interrupt.wait_for_signal() => Err(FleetRequestError::Interrupted),
    }
}

async fn exchange_request(
    command: &[String],
    timeout: Duration,
    request: &Value,
    printer: &OutputPrinter,
) -> Result<BTreeSet<Identity>, DiscoveryProgramError> {
    let program = || PathBuf::from(command.first().map_or("", String::as_str));
    let failed = |source| DiscoveryProgramError::Files {
        program: program(),
        source,
    };
    let directory = tempfile::Builder::new()
        .prefix("rpc-discovery-")
        .tempdir()
        .map_err(failed)?;
    let (question, answer) = (
        directory.path().join("request"),
        directory.path().join("reply"),
    );
    std::fs::write(&question, request.to_string()).map_err(failed)?;
    std::fs::write(&answer, "").map_err(failed)?;
    let child = spawn_program(command, &question, &answer, directory.path());
    let child = child.map_err(|source| DiscoveryProgramError::Start {
        program: program(),
        source,
    })?;
    let ended =
        tokio::time::timeout(timeout, DiscoveryProcessGroup(child).wait_with_output()).await;
    let Ok(ended) = ended else {
        return Err(DiscoveryProgramError::Slow {
            program: program(),
            within: timeout,
        });
    };
    let (status, said, complained) = ended.map_err(failed)?;
    for line in said.lines() {
        printer.print_detail(format_args!(
            "{}: {}",
            program().display(),
            printable::escape_to_line(line)
        ));
    }
    for line in complained.lines() {
        printer.print_warning(format_args!(
            "{}: {}",
            program().display(),
            printable::escape_to_line(line)
        ));
    }
    if !status.success() {
        return Err(DiscoveryProgramError::Failed {
            program: program(),
            status,
        });
    }
    let text = match files::read_text(&answer, MAX_REPLY_BYTES) {
        Ok(text) => text,
        Err(files::RpcFileError::System { source, .. }) => return Err(failed(source)),
        Err(_) => return Err(DiscoveryProgramError::TooLong { program: program() }),
    };
    parse_reply(&text).map_err(|source| DiscoveryProgramError::Reply {
        program: program(),
        source,
    })
}

#[expect(clippy::disallowed_types, reason = "this is the file that starts it")]
fn spawn_program(
    command: &[String],
    question: &Path,
    answer: &Path,
    directory: &Path,
) -> io::Result<Child> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let program = if program.contains('/') {
        std::path::absolute(program)?
    } else {
        program.into()
    };
    Command::new(program)
        .args(arguments)
        .args([question, answer])
        .arg(REQUEST_PROTOCOL)
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .env(REQUEST_VARIABLE, question)
        .env(REPLY_VARIABLE, answer)
        .env(PROTOCOL_VARIABLE, REQUEST_PROTOCOL)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
}

/// A program with all that it starts; none of it outlives this.
struct DiscoveryProcessGroup(Child);

impl DiscoveryProcessGroup {
    /// Waits for its end, and takes what it says meanwhile.
    async fn wait_with_output(mut self) -> io::Result<(ExitStatus, String, String)> {
        let (out, err) = (self.0.stdout.take(), self.0.stderr.take());
        let (status, out, err) = tokio::join!(self.0.wait(), read_capped(out), read_capped(err));
        Ok((status?, out, err))
    }
}

impl Drop for DiscoveryProcessGroup {
    fn drop(&mut self) {
        // Without a number it was waited for, and its group may be somebody else's by now.
        let group = self.0.id().and_then(|id| i32::try_from(id).ok());
        let _ = group.map(|id| killpg(Pid::from_raw(id), Signal::SIGKILL));
    }
}

/// The beginning of what comes, all of which is read.
async fn read_capped(pipe: Option<impl AsyncRead + Unpin>) -> String {
    let Some(mut pipe) = pipe else {
        return String::new();
    };
    let mut kept = Vec::new();
    let mut buffer = vec![0; 4096];
    while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
        let room = MAX_KEPT_OUTPUT_BYTES.saturating_sub(kept.len()).min(count);
        kept.extend(buffer.iter().take(room));
    }
    String::from_utf8_lossy(&kept).into_owned()
}

#[cfg(test)]
mod tests;
