//! `rpc run COMMAND`: runs a command line on all matching nodes with the agent `shell`, and shows its output by node.

pub mod args;

use std::time::Duration;

use muster_contract::shell::{ShellAgent, ShellRun};
use muster_ddl::{Action as _, AgentContract as _};
use serde_json::{Map, Value, json};

use crate::commands::run::args::{RunArgs, RunOutputArgs};
use crate::flags::approval::ApprovalArgs;
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

/// The request for the agent `shell` with these options.
fn request_of(args: RunArgs) -> RequestArgs {
    let base = shell_inputs(&args);
    RequestArgs {
        agent: Some(ShellAgent::NAME.to_owned()),
        words: vec![ShellRun::NAME.to_owned()],
        base,
        literal_values: false,
        timeout: Some(Duration::from_secs(args.timeout) + REPLY_TIME),
        ttl: args.ttl,
        output: output_flags(args.output),
        approval: ApprovalArgs { propose: None, lifetime: Duration::from_hours(1), approve: None },
        flags: RequestFlags { yes: args.yes, job: args.job, ..RequestFlags::default() },
        pace: args.pace,
        filters: args.filters,
        commands: Vec::new(),
        help: false,
    }
}

fn shell_inputs(args: &RunArgs) -> Map<String, Value> {
    let mut inputs = Map::new();
    inputs.insert("script".to_owned(), json!(args.command));
    inputs.insert("timeout".to_owned(), json!(args.timeout));
    let texts = [("user", &args.user), ("cwd", &args.cwd)];
    for (name, value) in texts {
        inputs.extend(value.as_ref().map(|value| (name.to_owned(), json!(value))));
    }
    if !args.env.is_empty() {
        let variables = args.env.iter().map(|(name, value)| (name.clone(), json!(value)));
        inputs.insert("env".to_owned(), Value::Object(variables.collect()));
    }
    inputs
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
