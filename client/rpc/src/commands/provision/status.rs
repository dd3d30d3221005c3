//! `rpc provision status` and `watch`: where new nodes stand.

use std::time::Duration;

use super::service::Service;
use crate::cli::provision::{Status, Watch};
use crate::commands::context::Context;
use crate::commands::form;
use crate::error::Error;
use crate::exit::Exit;
use crate::render::printable::line;
use crate::render::provision::{Document, Standing, changes, history, table};

/// Shows it once.
pub async fn run(args: Status, cx: Context<'_>) -> Result<Exit, Error> {
    let json = form::json(&args.json)?;
    let Some(service) = Service::find(cx).await? else {
        return Ok(Exit::Local);
    };
    let node = args.node.as_ref().map(|node| ("node", node.as_str()));
    let state = args.state.map(|state| ("state", state.word()));
    let history_wanted = args.node.is_some() || json.is_some();
    let told = history_wanted.then_some(("history", "true"));
    let inputs: Vec<_> = [node, state, told].into_iter().flatten().collect();
    let standing = match look(&service, &inputs, cx).await? {
        Ok(standing) => standing,
        Err(exit) => return Ok(exit),
    };
    if let Some(json) = &json {
        cx.json(&Document::new(&standing), json)?;
    } else {
        let width = cx.printer.screen().width;
        cx.printer.text(table(&standing, width))?;
        if args.node.is_some() {
            cx.printer.text(history(&standing))?;
        }
    }
    Ok(exit_of(&standing))
}

/// Shows it until there is nothing to wait for: on a terminal drawn again in its place, elsewhere a line for each change.
pub async fn watch(args: &Watch, cx: Context<'_>) -> Result<Exit, Error> {
    let Some(service) = Service::find(cx).await? else {
        return Ok(Exit::Local);
    };
    let state = args.state.map(|state| ("state", state.word()));
    let inputs: Vec<_> = state.into_iter().collect();
    let screen = cx.printer.screen();
    let mut before: Option<Standing> = None;
    let mut drawn = 0;
    loop {
        let standing = match look(&service, &inputs, cx).await? {
            Ok(standing) => standing,
            Err(exit) => return Ok(exit),
        };
        if screen.is_terminal {
            let text = table(&standing, screen.width);
            // Up to where the last table began, and everything below it away.
            let back = if drawn > 0 {
                format!("\u{1b}[{drawn}A\u{1b}[J")
            } else {
                String::new()
            };
            drawn = text.lines().count();
            cx.printer.text(format_args!("{back}{text}"))?;
        } else {
            for change in changes(before.as_ref(), &standing) {
                cx.printer.line(change)?;
            }
        }
        if standing.is_settled() {
            return Ok(exit_of(&standing));
        }
        before = Some(standing);
        tokio::time::sleep(Duration::from_secs(args.every)).await;
    }
}

async fn look(
    service: &Service<'_>,
    inputs: &[(&str, &str)],
    cx: Context<'_>,
) -> Result<Result<Standing, Exit>, Error> {
    match service.ask("status", inputs).await? {
        Ok(reply) if reply.is_ok() => Ok(Ok(Standing::read(&reply))),
        Ok(reply) => {
            let (node, why) = (&reply.node, line(&reply.message));
            cx.printer.error(format_args!("{node}: {why}"));
            Ok(Err(Exit::SomeFailed))
        }
        Err(report) => {
            cx.warn_of_gaps(&report);
            cx.printer.error("no host of the service answers");
            Ok(Err(Exit::NoneAnswered))
        }
    }
}

fn exit_of(standing: &Standing) -> Exit {
    if standing.has_failed() {
        Exit::SomeFailed
    } else {
        Exit::Passed
    }
}
