//! `rpc ping`: lists the nodes that reply, with round-trip time and clock difference.

pub mod args;
pub mod output;

use std::collections::BTreeSet;

use muster_calls::CallStats;
use muster_client::{NodeTrace, PingRequest, ResultGap, ping_nodes, reply_skew};
use muster_display::printer::PrintError;
use muster_wire::identity::Identity;

use crate::commands::ping::args::PingArgs;
use crate::commands::ping::output::{
    PingDenial, PingDocument, PingReply, render_ping_graph, render_ping_statistics,
};
use crate::report::progress::ProgressReporter;
use crate::report::trace::RequestTrace;
use crate::request::send::request_traceparent;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult};

/// Prints each reply as it arrives.
pub async fn run(mut args: PingArgs, cx: CommandContext<'_>) -> CommandResult {
    args.named.add_to(&mut args.query.filters);
    let mut target = cx.read_target(&args.query.filters)?;
    target.listen = args.timeout.or(target.listen);
    let json = args.query.json.form()?;
    let settings = cx.load_settings()?;
    let fleet = cx.connect(&target).await?;
    let verbose = cx.is_verbose();
    let request = PingRequest {
        target: &target,
        expect: args.expect.map(|count| usize::try_from(count).unwrap_or(usize::MAX)),
        traceparent: args.trace.then(|| request_traceparent(true, cx.environment)).flatten(),
    };
    let (mut pongs, mut denials, mut traces) = (Vec::new(), Vec::new(), Vec::new());
    let mut cloned = BTreeSet::new();
    let mut printed: Result<(), PrintError> = Ok(());
    let progress = ProgressReporter::new(cx.printer, false);
    let stats = ping_nodes(&fleet, request, &progress, |received| {
        let reply = &received.reply;
        if reply.cloned {
            cloned.insert(reply.sender.clone());
        }
        if let Some(rule) = received.denial() {
            denials.push(PingDenial { node: reply.sender.clone(), rule: rule.to_owned() });
            return;
        }
        let skew = reply_skew(received);
        let pong = PingReply { node: reply.sender.clone(), after: received.after, skew };
        if json.is_none() && printed.is_ok() {
            printed = cx.printer.print_line(pong.render_line(verbose));
        }
        pongs.push(pong);
        let trace = NodeTrace::of_reply(received);
        traces.extend(trace.map(|trace| (reply.sender.clone(), trace)));
    });
    let stats = stats.await?;
    printed?;
    let found = || pongs.iter().map(|pong| &pong.node).chain(denials.iter().map(|it| &it.node));
    cx.remember_found(&target, found());
    let complete = stats.as_ref().is_none_or(|stats| stats.incomplete.is_none());
    if let Some(json) = &json {
        cx.print_json(&PingDocument::new(&pongs, &denials, !complete, &traces), json)?;
    } else {
        cx.printer.print_text(render_ping_statistics(&pongs) + "\n")?;
        let width = cx.width();
        if let Some(graph) = render_ping_graph(&pongs, width).filter(|_| args.graph) {
            cx.printer.print_text(format_args!("\n{graph}\n"))?;
        }
        if let Some(stats) = stats.as_ref().filter(|_| args.trace) {
            let request_trace = build_trace(&request, stats, &traces);
            cx.printer.print_text(format_args!("\n{}", request_trace.render_text(verbose)))?;
        }
    }
    if target.discovery_source(Some(settings))?.method().asks_fleet()
        && request.expect.is_none()
        && let Some(absent) = cx.describe_absent(&target, found())
    {
        cx.printer.print_warning(absent);
    }
    cx.warn_of_clones(&cloned);
    for denial in &denials {
        cx.printer.print_warning(denial);
    }
    if !complete {
        cx.warn_of_gap(ResultGap::Discovery);
    }
    if pongs.is_empty() && denials.is_empty() {
        cx.suggest_names(&target);
    }
    Ok(exit_code(pongs.len(), request.expect))
}

fn build_trace<'a>(
    request: &PingRequest<'_>,
    stats: &CallStats,
    traces: &'a [(Identity, NodeTrace)],
) -> RequestTrace<'a> {
    let publish = stats.publishing.saturating_sub(stats.signing);
    RequestTrace {
        trace: request.traceparent.map(|trace| trace.trace_id()),
        caller_stages: vec![("sign", stats.signing), ("publish", publish)],
        nodes: traces.iter().map(|(node, trace)| (node, trace, None)).collect(),
    }
}

/// The exit code: an error if no node replied, or fewer than expected.
fn exit_code(count: usize, expect: Option<usize>) -> CommandExitCode {
    match (count, expect) {
        (0, None) => CommandExitCode::Local,
        (0, Some(_)) => CommandExitCode::NoneAnswered,
        (count, Some(expect)) if count < expect => CommandExitCode::SomeFailed,
        _ => CommandExitCode::Passed,
    }
}
