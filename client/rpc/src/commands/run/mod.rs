//! `rpc run COMMAND`: runs a command line on all matching nodes with the agent `shell`, and shows its output by node.

pub mod args;

use std::time::Duration;

use muster_contract::shell::{ShellProgramInput, ShellRun, ShellRunInput};

use crate::commands::run::args::{RunArgs, RunOutputArgs};
use crate::flags::output::{CommandOutputMode, OutputArgs};
use crate::flags::request::RequestArgs;
use crate::flags::request_flags::RequestFlags;
use crate::request::send;
use crate::session::context::{CommandContext, CommandResult};

/// Time that a node has to kill the command and to reply, after the command's time limit.
const REPLY_TIME: Duration = Duration::from_secs(10);

pub async fn run(mut args: RunArgs, cx: CommandContext<'_>) -> CommandResult {
    args.named.add_to(&mut args.filters);
    Box::pin(send::run(request_of(args), cx)).await
}

/// The request for the agent `shell` with these options. The named nodes are among the filters.
fn request_of(args: RunArgs) -> RequestArgs {
    let RunArgs {
        command,
        named: _,
        timeout,
        ttl,
        user,
        cwd,
        env,
        yes,
        job,
        output,
        pace,
        filters,
    } = args;
    let env = (!env.is_empty()).then(|| env.into_iter().collect());
    let program =
        ShellProgramInput { command: None, script: Some(command), user, cwd, env, stdin: None };
    let input = ShellRunInput { program, timeout: Some(timeout) };
    RequestArgs {
        timeout: Some(Duration::from_secs(timeout) + REPLY_TIME),
        ttl,
        output: output_flags(output),
        flags: RequestFlags { yes, job, ..RequestFlags::default() },
        pace,
        filters,
        ..RequestArgs::of_action::<ShellRun>(&input)
    }
}

fn output_flags(flags: RunOutputArgs) -> OutputArgs {
    let RunOutputArgs { fold, stream, sort, json, jq, jsonl, output, file, no_progress } = flags;
    let mode = match (fold, stream) {
        (true, _) => CommandOutputMode::Folded,
        (false, true) => CommandOutputMode::Streamed,
        (false, false) => CommandOutputMode::ByNode,
    };
    OutputArgs {
        json,
        jq,
        jsonl,
        output,
        file,
        sort,
        no_progress,
        no_stream: fold || sort,
        command_output: Some(mode),
        ..OutputArgs::default()
    }
}
