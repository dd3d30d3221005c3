//! `rpc cancel ID`: takes a request back on all nodes that still work on it.

use serde_json::Value;

use super::context::Context;
use super::form;
use super::request::nobody_found;
use crate::ask::{Fleet, Plan, Progress, Question, Recorder, Schemas, Words};
use crate::cli::cancel::Cancel;
use crate::error::Error;
use crate::exit::Exit;
use crate::printer::{BAD, GOOD, Talk};
use crate::render::json::Request as Document;
use crate::render::printable::line;
use crate::report::{Reply, Report};

/// Runs the command.
pub async fn run(args: Cancel, cx: Context<'_>) -> Result<Exit, Error> {
    let target = cx.target(&args.filters)?.with_agent("rpcutil")?;
    let json = form::json(&args.json)?;
    let settings = cx.settings()?;
    let schemas = Schemas::load(Some(&settings))?;
    let action = if args.any { "cancel_any" } else { "cancel" };
    let words = [action.to_owned(), format!("id={}", args.id)];
    let words = Words::read("rpcutil", &words)?;
    let (ddl, action) = schemas.action(&words)?;
    let plan = Plan::new(ddl, action, &words.inputs)?;
    let fleet = Fleet::connect(&settings, &target).await?;
    let progress = Progress::new(cx.printer, json.is_none());
    let found = fleet.discover(&target, &progress).await?;
    let report = fleet
        .ask(
            Question::new(&plan),
            found,
            &mut Recorder::new(None, cx.printer),
            &progress,
            |_| Ok(()),
        )
        .await?;
    if let Some(json) = &json {
        cx.json(&Document::new(&report), json)?;
    } else if report.stats.discovered == 0 {
        nobody_found(&target, cx);
    } else {
        show(&report, cx)?;
    }
    cx.warn_of_gaps(&report);
    let nowhere = report.stats.exit() == Exit::Passed && cancelled(&report) == 0;
    Ok(if nowhere {
        Exit::Local
    } else {
        report.stats.exit()
    })
}

/// The nodes where something happened; with details, the others too.
fn show(report: &Report, cx: Context<'_>) -> Result<(), Error> {
    let mut replies: Vec<&Reply> = report.replies.iter().collect();
    replies.sort_by(|a, b| a.node.cmp(&b.node));
    for reply in replies {
        let text = |key: &str| reply.data.get(key).and_then(Value::as_str).map(line);
        let node = &reply.node;
        if !reply.is_ok() {
            let why = line(&reply.message);
            cx.printer.line(format_args!("{node}: {BAD}{why}{BAD:#}"))?;
        } else if let (Some(agent), Some(action), Some(caller)) =
            (text("agent"), text("action"), text("caller"))
        {
            cx.printer.line(format_args!(
                "{node}: {GOOD}cancelled{GOOD:#} {agent} {action} of {caller}"
            ))?;
        } else if cx.printer.talk() == Talk::Verbose {
            cx.printer.line(format_args!("{node}: not at work there"))?;
        }
    }
    let silent: Vec<&str> = report.stats.missing.iter().map(AsRef::as_ref).collect();
    if !silent.is_empty() {
        cx.printer
            .warn(format_args!("no answer from {}", silent.join(", ")));
    }
    let (count, asked) = (cancelled(report), report.stats.discovered);
    cx.printer
        .say(format_args!("Cancelled on {count} of {asked} nodes"));
    Ok(())
}

fn cancelled(report: &Report) -> usize {
    let outcome = |reply: &&Reply| reply.data.get("outcome") == Some(&Value::from("cancelled"));
    report.replies.iter().filter(outcome).count()
}
