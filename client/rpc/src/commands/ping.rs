//! `rpc ping`: who is there, how far away, and whose clock is wrong.

use super::context::Context;
use super::form;
use crate::ask::{Fleet, Progress};
use crate::cli::ping::Ping;
use crate::clock;
use crate::error::Error;
use crate::exit::Exit;
use crate::printer::OutputError;
use crate::render::ping::{Document, Pong, graph, statistics};
use crate::report::Gap;

/// Runs the command. Lines come as answers do.
pub async fn run(args: Ping, cx: Context<'_>) -> Result<Exit, Error> {
    let mut target = cx.target(&args.filters)?;
    target.listen = args.timeout.or(target.listen);
    let json = form::json(&args.json)?;
    let settings = cx.settings()?;
    let fleet = Fleet::connect(&settings, &target).await?;
    let mut pongs = Vec::new();
    let mut printed: Result<(), OutputError> = Ok(());
    let complete = fleet
        .ping(&target, &Progress::new(cx.printer, false), |answer| {
            let reply = &answer.reply;
            let pong = Pong::new(reply.sender.clone(), answer.after, reply.time, clock::now());
            if json.is_none() && printed.is_ok() {
                printed = cx.printer.line(pong.line());
            }
            pongs.push(pong);
        })
        .await?;
    printed?;
    cx.remember(pongs.iter().map(|pong| &pong.node));
    if let Some(json) = &json {
        cx.json(&Document::new(&pongs, !complete), json)?;
    } else {
        cx.printer.line(statistics(&pongs))?;
        let width = cx.printer.screen().width;
        if let Some(graph) = graph(&pongs, width).filter(|_| args.graph) {
            cx.printer.line(format_args!("\n{graph}"))?;
        }
    }
    if !complete {
        cx.printer
            .warn(format_args!("incomplete: {}", Gap::Discovery.sentence()));
    }
    Ok(if pongs.is_empty() {
        Exit::Local
    } else {
        Exit::Passed
    })
}
