//! `rpc puppet enable`, `disable` and `restart`: shortcuts for ordinary requests.

use muster_contract::puppet::{PuppetAgent, PuppetDisable, PuppetEnable};
use muster_contract::restart::{RestartAgent, RestartRequest};
use muster_ddl::{Action as _, AgentContract as _};

use crate::commands::puppet::args::{PuppetChangeArgs, PuppetDisableArgs, PuppetRestartArgs};
use crate::request::send::send_words;
use crate::session::context::{CommandContext, CommandResult};

const PUPPET_UNIT: &str = "puppet";

pub async fn enable_runs(args: PuppetChangeArgs, cx: CommandContext<'_>) -> CommandResult {
    send_change(PuppetAgent::NAME, vec![PuppetEnable::NAME.to_owned()], args, cx).await
}

pub async fn disable_runs(args: PuppetDisableArgs, cx: CommandContext<'_>) -> CommandResult {
    let message = args.message.map(|message| format!("message={message}"));
    let words = std::iter::once(PuppetDisable::NAME.to_owned()).chain(message).collect();
    send_change(PuppetAgent::NAME, words, args.change, cx).await
}

pub async fn restart_daemon(args: PuppetRestartArgs, cx: CommandContext<'_>) -> CommandResult {
    let mut words = vec![
        RestartRequest::NAME.to_owned(),
        format!("unit={PUPPET_UNIT}"),
        format!("when_idle={}", args.when_idle),
        "wait=true".to_owned(),
    ];
    if let Some(deadline) = args.deadline {
        words.push(format!("deadline={}", deadline.as_secs_f64().ceil()));
    }
    send_change(RestartAgent::NAME, words, args.change, cx).await
}

async fn send_change(
    agent: &str,
    mut words: Vec<String>,
    args: PuppetChangeArgs,
    cx: CommandContext<'_>,
) -> CommandResult {
    words.extend(args.noop.then(|| "noop=true".to_owned()));
    send_words(agent, words, args.yes, args.query, cx).await
}
