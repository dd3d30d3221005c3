//! `rpc ping`: who is there, how far away, and whose clock is wrong.

use muster_client::{Answer, Stats};
use muster_wire::identity::Identity;

use super::context::Context;
use super::form;
use super::request::traceparent;
use crate::ask::{self, Fleet, Progress};
use crate::cli::ping::Ping;
use crate::clock;
use crate::error::Error;
use crate::exit::Exit;
use crate::printer::{OutputError, Talk};
use crate::render::ping::{Document, Pong, graph, statistics};
use crate::render::trace::Way;
use crate::report::{Gap, NodeTrace};

/// Runs the command. Lines come as answers do.
pub async fn run(args: Ping, cx: Context<'_>) -> Result<Exit, Error> {
    let mut target = cx.target(&args.filters)?;
    target.listen = args.timeout.or(target.listen);
    let json = form::json(&args.json)?;
    let settings = cx.settings()?;
    let fleet = Fleet::connect(&settings, &target).await?;
    let verbose = cx.printer.talk() == Talk::Verbose;
    let question = ask::Ping {
        target: &target,
        expect: args
            .expect
            .map(|count| usize::try_from(count).unwrap_or(usize::MAX)),
        traceparent: args
            .trace
            .then(|| traceparent(true, cx.environment))
            .flatten(),
    };
    let (mut pongs, mut traces) = (Vec::new(), Vec::new());
    let mut printed: Result<(), OutputError> = Ok(());
    let stats = fleet
        .watch(question, &Progress::new(cx.printer, false), |answer| {
            let reply = &answer.reply;
            let pong = Pong::new(reply.sender.clone(), answer.after, reply.time, clock::now());
            if json.is_none() && printed.is_ok() {
                printed = cx.printer.line(pong.line(verbose));
            }
            pongs.push(pong);
            traces.extend(followed(answer));
        })
        .await?;
    printed?;
    cx.remember(pongs.iter().map(|pong| &pong.node));
    let complete = stats
        .as_ref()
        .is_none_or(|stats| stats.incomplete.is_none());
    if let Some(json) = &json {
        cx.json(&Document::new(&pongs, !complete).with_traces(&traces), json)?;
    } else {
        cx.printer.line(statistics(&pongs))?;
        let width = cx.printer.screen().width;
        if let Some(graph) = graph(&pongs, width).filter(|_| args.graph) {
            cx.printer.line(format_args!("\n{graph}"))?;
        }
        if let Some(stats) = stats.as_ref().filter(|_| args.trace) {
            let way = way(&question, stats, &traces);
            cx.printer.text(format_args!("\n{}", way.text(verbose)))?;
        }
    }
    if !complete {
        cx.printer
            .warn(format_args!("incomplete: {}", Gap::Discovery.sentence()));
    }
    Ok(exit(pongs.len(), question.expect))
}

/// An answer's way, if it was followed.
fn followed(answer: &Answer) -> Option<(Identity, NodeTrace)> {
    let trace = NodeTrace {
        stages: answer.reply.stages.clone(),
        after: answer.after,
        verifying: answer.verifying,
    };
    (!trace.stages.is_empty()).then(|| (answer.reply.sender.clone(), trace))
}

fn way<'a>(
    question: &ask::Ping<'_>,
    stats: &Stats,
    traces: &'a [(Identity, NodeTrace)],
) -> Way<'a> {
    let publish = stats.publishing.saturating_sub(stats.signing);
    Way {
        trace: question.traceparent.map(|trace| trace.trace()),
        here: vec![("sign", stats.signing), ("publish", publish)],
        nodes: traces
            .iter()
            .map(|(node, trace)| (node, trace, None))
            .collect(),
    }
}

/// Nobody is there, or fewer than were expected.
fn exit(count: usize, expect: Option<usize>) -> Exit {
    match (count, expect) {
        (0, None) => Exit::Local,
        (0, Some(_)) => Exit::NoneAnswered,
        (count, Some(expect)) if count < expect => Exit::SomeFailed,
        _ => Exit::Passed,
    }
}
