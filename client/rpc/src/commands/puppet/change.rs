//! `rpc puppet enable`, `disable` and `restart`: shortcuts for ordinary requests.

use crate::commands::puppet::PUPPET_AGENT;
use crate::commands::puppet::args::{PuppetChangeArgs, PuppetDisableArgs, PuppetRestartArgs};
use crate::request::send::send_words;
use crate::session::context::{CommandContext, CommandResult};

const RESTART_AGENT: &str = "restart";

const PUPPET_UNIT: &str = "puppet";

pub async fn enable_runs(args: PuppetChangeArgs, cx: CommandContext<'_>) -> CommandResult {
    send_change(PUPPET_AGENT, vec!["enable".to_owned()], args, cx).await
}

pub async fn disable_runs(args: PuppetDisableArgs, cx: CommandContext<'_>) -> CommandResult {
    let message = args.message.map(|message| format!("message={message}"));
    let words = std::iter::once("disable".to_owned()).chain(message).collect();
    send_change(PUPPET_AGENT, words, args.change, cx).await
}

pub async fn restart_daemon(args: PuppetRestartArgs, cx: CommandContext<'_>) -> CommandResult {
    let mut words = vec![
        "request".to_owned(),
        format!("unit={PUPPET_UNIT}"),
        format!("when_idle={}", args.when_idle),
        "wait=true".to_owned(),
    ];
    if let Some(deadline) = args.deadline {
        words.push(format!("deadline={}", deadline.as_secs_f64().ceil()));
    }
    send_change(RESTART_AGENT, words, args.change, cx).await
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
