//! `rpc puppet enable`, `disable` and `restart`: requests like any other, under names that people know.

use std::time::Duration;

use super::AGENT;
use crate::cli::approval::Approval;
use crate::cli::errand::Errand;
use crate::cli::output::Output;
use crate::cli::pace::Pace;
use crate::cli::puppet::{Change, Disable, Restart};
use crate::cli::request::Request;
use crate::commands::context::Context;
use crate::commands::request;
use crate::error::Error;
use crate::exit::Exit;

/// The agent that restarts services, and the one that is meant.
const RESTARTER: &str = "restart";
const UNIT: &str = "puppet";

/// Allows runs.
pub async fn enable(args: Change, cx: Context<'_>) -> Result<Exit, Error> {
    ask(AGENT, vec!["enable".to_owned()], args, cx).await
}

/// Forbids them.
pub async fn disable(args: Disable, cx: Context<'_>) -> Result<Exit, Error> {
    let message = args.message.map(|message| format!("message={message}"));
    let words = std::iter::once("disable".to_owned()).chain(message);
    ask(AGENT, words.collect(), args.change, cx).await
}

/// Restarts Puppet's daemon, and tells what came of it.
pub async fn restart(args: Restart, cx: Context<'_>) -> Result<Exit, Error> {
    let mut words = vec![
        "request".to_owned(),
        format!("unit={UNIT}"),
        format!("when_idle={}", args.when_idle),
        "wait=true".to_owned(),
    ];
    if let Some(deadline) = args.deadline {
        words.push(format!("deadline={}", deadline.as_secs_f64().ceil()));
    }
    ask(RESTARTER, words, args.change, cx).await
}

async fn ask(
    agent: &str,
    words: Vec<String>,
    change: Change,
    cx: Context<'_>,
) -> Result<Exit, Error> {
    let request = Request {
        agent: Some(agent.to_owned()),
        words,
        timeout: None,
        ttl: Duration::from_mins(1),
        output: Output {
            json: change.json.json,
            jq: change.json.jq,
            ..Output::default()
        },
        approval: Approval {
            propose: None,
            lifetime: Duration::from_hours(1),
            approve: None,
        },
        errand: Errand {
            yes: change.yes,
            ..Errand::default()
        },
        pace: Pace::default(),
        filters: change.filters,
        bare: false,
        help: false,
    };
    Box::pin(request::run(request, cx)).await
}
