//! `rpc puppet enable`, `disable` and `restart`: shortcuts for ordinary requests.

use std::time::Duration;

use super::PUPPET_AGENT;
use crate::cli::approval::ApprovalArgs;
use crate::cli::output::OutputArgs;
use crate::cli::puppet::{PuppetChangeArgs, PuppetDisableArgs, PuppetRestartArgs};
use crate::cli::request::RequestArgs;
use crate::cli::request_flags::RequestFlags;
use crate::cli::rollout_flags::PaceArgs;
use crate::commands::context::CommandContext;
use crate::commands::request;
use crate::error::Error;
use crate::exit::CommandExitCode;

/// The agent that restarts services.
const RESTART_AGENT: &str = "restart";
const PUPPET_UNIT: &str = "puppet";

/// Enables runs.
pub async fn enable_runs(
    args: PuppetChangeArgs,
    cx: CommandContext<'_>,
) -> Result<CommandExitCode, Error> {
    send_request(PUPPET_AGENT, vec!["enable".to_owned()], args, cx).await
}

/// Disables runs.
pub async fn disable_runs(
    args: PuppetDisableArgs,
    cx: CommandContext<'_>,
) -> Result<CommandExitCode, Error> {
    let message = args.message.map(|message| format!("message={message}"));
    let words = std::iter::once("disable".to_owned()).chain(message);
    send_request(PUPPET_AGENT, words.collect(), args.change, cx).await
}

/// Restarts Puppet's daemon and prints the outcome.
pub async fn restart_daemon(
    args: PuppetRestartArgs,
    cx: CommandContext<'_>,
) -> Result<CommandExitCode, Error> {
    let mut words = vec![
        "request".to_owned(),
        format!("unit={PUPPET_UNIT}"),
        format!("when_idle={}", args.when_idle),
        "wait=true".to_owned(),
    ];
    if let Some(deadline) = args.deadline {
        words.push(format!("deadline={}", deadline.as_secs_f64().ceil()));
    }
    send_request(RESTART_AGENT, words, args.change, cx).await
}

async fn send_request(
    agent: &str,
    words: Vec<String>,
    change: PuppetChangeArgs,
    cx: CommandContext<'_>,
) -> Result<CommandExitCode, Error> {
    let request = RequestArgs {
        agent: Some(agent.to_owned()),
        words,
        timeout: None,
        ttl: Duration::from_mins(1),
        output: OutputArgs { json: change.json.json, jq: change.json.jq, ..OutputArgs::default() },
        approval: ApprovalArgs { propose: None, lifetime: Duration::from_hours(1), approve: None },
        flags: RequestFlags { yes: change.yes, ..RequestFlags::default() },
        pace: PaceArgs::default(),
        filters: change.filters,
        bare: false,
        help: false,
    };
    Box::pin(request::run(request, cx)).await
}
