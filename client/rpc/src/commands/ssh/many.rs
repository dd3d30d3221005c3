//! Runs one command by ssh on many nodes.

use std::num::NonZeroUsize;
use std::process::{ExitStatus, Stdio};

use futures_util::{StreamExt as _, stream};
use muster_client::read_capped;
use muster_operations::ssh::{SshProgram, SshTarget, program_arguments};

use crate::commands::ssh::SshCommandError;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult};

/// Most bytes of a node's output that are kept; the rest is dropped.
const MAX_OUTPUT_BYTES: usize = 1024 * 1024;

/// The end of a command on one node.
struct NodeRun<'a> {
    target: &'a SshTarget,
    result: Result<ExitStatus, SshCommandError>,
    /// What it printed, if that was not printed at once.
    output: String,
}

/// Runs the command on all nodes, on as many at once as `parallel`. Output of several nodes at once is printed in one piece for each node, when it ends.
/// `skipped` nodes count as failed.
pub(super) async fn run_on_all(
    targets: &[SshTarget],
    skipped: usize,
    arguments: &[String],
    parallel: NonZeroUsize,
    cx: CommandContext<'_>,
) -> CommandResult {
    let printer = cx.printer;
    let is_single = parallel.get() == 1;
    let runs = stream::iter(targets).map(|target| async move {
        if is_single {
            printer.print_message(format_args!("Running: ssh {}", target.node));
        }
        run_one(target, arguments, is_single).await
    });
    let mut runs = std::pin::pin!(runs.buffer_unordered(parallel.get()));
    let mut failures = Vec::new();
    while let Some(run) = runs.next().await {
        if !is_single {
            printer.print_message(format_args!("Running: ssh {}", run.target.node));
            printer.print_text(run.output)?;
        }
        let node = &run.target.node;
        match run.result {
            Ok(status) if status.success() => {}
            Ok(status) => failures.push(format!("{node}: {status}")),
            Err(error) => failures.push(format!("{node}: {error}")),
        }
    }
    for failure in &failures {
        printer.print_error(failure);
    }
    let succeeded = targets.len() - failures.len();
    let total = targets.len() + skipped;
    printer.print_message(format_args!("{succeeded} of {total} nodes succeeded"));
    Ok(CommandExitCode::from_verdict(succeeded == total))
}

#[expect(clippy::disallowed_types, reason = "runs ssh")]
async fn run_one<'a>(target: &'a SshTarget, arguments: &[String], is_single: bool) -> NodeRun<'a> {
    let mut output = String::new();
    let result = async {
        let arguments = program_arguments(SshProgram::Ssh, target, arguments)?;
        let failed = |source| SshCommandError::Start { program: SshProgram::Ssh.name(), source };
        let mut command = tokio::process::Command::new(SshProgram::Ssh.name());
        command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
        if is_single {
            return command.status().await.map_err(failed);
        }
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(failed)?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let (status, out, err) = tokio::join!(
            child.wait(),
            read_capped(out, MAX_OUTPUT_BYTES),
            read_capped(err, MAX_OUTPUT_BYTES)
        );
        output = out + &err;
        status.map_err(failed)
    };
    let result = result.await;
    NodeRun { target, result, output }
}
