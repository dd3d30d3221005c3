//! `rpc cancel ID`: cancels a request, or all requests of a job, on the nodes that still run it.

pub mod args;

use std::collections::BTreeSet;

use muster_base::error_chain;
use muster_client::jobs::{JobState, JobStore, JobWave, SavedJob, SavedJobError};
use muster_client::{
    AgentSchemas, FleetConnection, Located, NodeReply, RequestOutcome, RequestReport, ResultGap,
    TargetSelection,
};
use muster_contract::rpcutil::{
    CancelOutcome, RpcutilAgent, RpcutilCancel, RpcutilCancelAny, RpcutilCancelInput,
    RpcutilCancelOutput,
};
use muster_ddl::{Action, AgentContract as _};
use muster_display::node_count_text;
use muster_display::printer::{BAD, GOOD};
use muster_wire::identity::Identity;
use uuid::Uuid;

use crate::commands::cancel::args::CancelArgs;
use crate::flags::filters::FilterArgs;
use crate::report::documents::RequestDocument as Document;
use crate::report::progress::ProgressReporter;
use crate::request::inquiry::ask_nodes;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult, Result};

enum CancelTarget {
    /// This request, on any node.
    Request(Uuid),
    /// All requests of the job.
    Job(Box<SavedJob>),
}

/// One request to cancel on these nodes. Without nodes, the nodes of the target are asked.
struct CancelTask {
    request: String,
    nodes: Option<BTreeSet<Identity>>,
}

pub async fn run(args: CancelArgs, cx: CommandContext<'_>) -> CommandResult {
    if args.any {
        cancel::<RpcutilCancelAny>(&args, cx).await
    } else {
        cancel::<RpcutilCancel>(&args, cx).await
    }
}

/// Sends `cancel`, or `cancel_any`.
async fn cancel<A: Action<Input = RpcutilCancelInput>>(
    args: &CancelArgs,
    cx: CommandContext<'_>,
) -> CommandResult {
    let json = args.query.json.form()?;
    let cancel_target = resolve_target(args, cx)?;
    let target = match &cancel_target {
        CancelTarget::Request(_) => {
            cx.read_target(&args.query.filters)?.with_agent(RpcutilAgent::NAME)?
        }
        CancelTarget::Job(job) => {
            TargetSelection::for_collective(Some(job.header.collective.clone()))
        }
    };
    let schemas = AgentSchemas::load(Some(cx.load_settings()?))?;
    let tasks = plan_cancels(&cancel_target, cx);
    let nothing_left = tasks.is_empty();
    let mut report = RequestReport::empty(RpcutilAgent::NAME, A::NAME);
    if !nothing_left {
        let fleet = cx.connect(&target).await?;
        if let CancelTarget::Job(job) = &cancel_target {
            fleet.check_job(job)?;
        }
        let progress = ProgressReporter::new(cx.printer, json.is_none());
        let canceller = Canceller {
            fleet: &fleet,
            schemas: &schemas,
            target: &target,
            waiting_only: args.waiting_only,
            progress: &progress,
        };
        report = canceller.send::<A>(tasks, report).await?;
    }
    if let Some(json) = &json {
        cx.print_json(&Document::new(&report), json)?;
    } else if nothing_left {
        cx.printer.print_message("Nothing left to cancel");
    } else if report.stats.discovered == 0 {
        cx.report_no_nodes(&target);
    } else {
        print_report(&report, args.waiting_only, cx)?;
    }
    cx.warn_of_gaps(&report);
    let none_cancelled =
        report.stats.outcome() == RequestOutcome::Succeeded && count_cancelled(&report) == 0;
    Ok(if none_cancelled { CommandExitCode::Local } else { report.stats.outcome().into() })
}

/// What sending cancel requests needs.
struct Canceller<'a> {
    fleet: &'a FleetConnection,
    schemas: &'a AgentSchemas,
    target: &'a TargetSelection,
    waiting_only: bool,
    progress: &'a ProgressReporter<'a>,
}

impl Canceller<'_> {
    /// Sends one cancel request after the other until the user interrupts. Merges the results into one report.
    async fn send<A: Action<Input = RpcutilCancelInput>>(
        &self,
        tasks: Vec<CancelTask>,
        mut report: RequestReport,
    ) -> Result<RequestReport> {
        let mut last_action = None;
        for CancelTask { request, nodes } in tasks {
            let waiting_only = self.waiting_only.then_some(true);
            let plan = self.schemas.plan::<A>(&RpcutilCancelInput { id: request, waiting_only })?;
            last_action = Some(plan.action);
            let found = match nodes {
                Some(nodes) => Located::from_names(nodes),
                None => self.fleet.locate(self.target, self.progress).await?,
            };
            report = report.merge(ask_nodes(self.fleet, &plan, found, self.progress).await?);
            if report.stats.gaps.contains(&ResultGap::Interrupted) {
                break;
            }
        }
        if let Some(action) = last_action {
            report.summarize(action);
        }
        Ok(report)
    }
}

/// Finds the named job or request. With filters, the request is searched on the matching nodes even if a job of it is saved.
fn resolve_target(args: &CancelArgs, cx: CommandContext<'_>) -> Result<CancelTarget> {
    let has_filters = args.query.filters != FilterArgs::default();
    let store = JobStore::new(cx.environment.state_home.as_deref());
    let Ok(id) = Uuid::parse_str(&args.id) else {
        let job = store?.load_job(&args.id)?;
        if has_filters {
            return Err(SavedJobError::Filtered(job.header.id).into());
        }
        return Ok(CancelTarget::Job(Box::new(job)));
    };
    if has_filters {
        return Ok(CancelTarget::Request(id));
    }
    match store.and_then(|store| store.find_by_request(&id.to_string())) {
        Ok(Some(job)) => return Ok(CancelTarget::Job(Box::new(job))),
        Ok(None) | Err(SavedJobError::NoStateDirectory) => {}
        Err(error) => cx.printer.print_warning(format_args!(
            "cannot read the saved jobs, so all nodes are called: {}",
            error_chain(&error)
        )),
    }
    Ok(CancelTarget::Request(id))
}

/// Plans which nodes cancel which request. Prints what continues to run.
fn plan_cancels(cancel_target: &CancelTarget, cx: CommandContext<'_>) -> Vec<CancelTask> {
    let job = match cancel_target {
        CancelTarget::Job(job) => job,
        CancelTarget::Request(id) => {
            return vec![CancelTask { request: id.to_string(), nodes: None }];
        }
    };
    let id = &job.header.id;
    cx.printer.print_detail(format_args!("job {id}"));
    let pending = job.never_asked_nodes().len();
    if job.state() == JobState::Running && pending > 0 {
        let pending = node_count_text(pending);
        cx.printer.print_warning(format_args!(
            "another `rpc` process still runs the job {id} and has yet to call {pending}; press Ctrl-C there to stop it"
        ));
    }
    let to_task = |JobWave { request, nodes }: JobWave| {
        if request.is_none() {
            let nodes = node_count_text(nodes.len());
            cx.printer.print_warning(format_args!(
                "{nodes} may have received a request whose id is not known; run `rpc do rpcutil running` to find it"
            ));
        }
        Some(CancelTask { request: request?, nodes: Some(nodes) })
    };
    job.open_waves().into_iter().filter_map(to_task).collect()
}

/// Prints the nodes where a request was cancelled or the call failed. With details, prints the other nodes too.
fn print_report(report: &RequestReport, waiting_only: bool, cx: CommandContext<'_>) -> Result<()> {
    let mut replies: Vec<&NodeReply> = report.replies.iter().collect();
    replies.sort_by(|a, b| a.node.cmp(&b.node));
    for reply in replies {
        let output: RpcutilCancelOutput = reply.typed_outputs();
        let node = &reply.node;
        if !reply.is_ok() {
            let reason = reply.message.line();
            cx.printer.print_line(format_args!("{node}: {BAD}{reason}{BAD:#}"))?;
        } else if let (Some(agent), Some(action), Some(caller)) =
            (output.agent, output.action, output.caller)
        {
            let request = format!("{agent} {action} of {caller}");
            let word = match output.outcome {
                CancelOutcome::Withdrawn => "withdrawn",
                _ => "cancelled",
            };
            cx.printer.print_line(format_args!("{node}: {GOOD}{word}{GOOD:#} {request}"))?;
        } else if cx.is_verbose() {
            cx.printer.print_line(format_args!("{node}: not running there"))?;
        }
    }
    let silent: Vec<&str> = report.stats.missing.iter().map(AsRef::as_ref).collect();
    if !silent.is_empty() {
        cx.printer.print_warning(format_args!("no reply from {}", silent.join(", ")));
    }
    let (count, total) = (count_cancelled(report), node_count_text(report.stats.discovered));
    let word = if waiting_only { "Withdrawn" } else { "Cancelled" };
    cx.printer.print_message(format_args!("{word} on {count} of {total}"));
    Ok(())
}

fn count_cancelled(report: &RequestReport) -> usize {
    let replies = report.replies.iter();
    let outputs = replies.map(NodeReply::typed_outputs::<RpcutilCancelOutput>);
    let ended = [CancelOutcome::Cancelled, CancelOutcome::Withdrawn];
    outputs.filter(|output| ended.contains(&output.outcome)).count()
}
