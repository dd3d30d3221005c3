//! `rpc job undo`: undoes the changes of a saved job, or of a request that the history has, on the nodes that it changed.
//!
//! Each node keeps what a request replaced under the request's id. So a job that was sent in batches is undone batch by batch. The
//! undo is stored as one job.

use std::collections::BTreeSet;

use muster_client::jobs::{JobHeader, JobStore, SavedJob, SavedJobError};
use muster_client::{
    AgentSchemas, FleetConnection, FleetRequest, JobRecorder, Located, RequestObserver as _,
    RequestPlan, RequestReport, RequestWords, ResultGap, TargetSelection, request_noop,
};
use muster_display::list_sample_nodes;
use muster_display::node_count_text;
use muster_filter::NodeFilter;
use muster_wire::identity::Identity;

use crate::commands::job::args::JobUndoArgs;
use crate::commands::job::past_request::{PastRequest, may_be_request};
use crate::report::request_form::{RequestOutputForm, run_with_form};
use crate::report::request_output::RequestOutput;
use crate::request::save::{JobCandidate, open_journal};
use crate::session::context::{CommandContext, CommandResult, Result};

/// The input with the id of the request to undo.
const UNDO_INPUT: &str = "undo";
/// The input that undoes what was changed since.
const FORCE_INPUT: &str = "force";

pub async fn run(args: JobUndoArgs, store: &JobStore, cx: CommandContext<'_>) -> CommandResult {
    let flags = args.output.clone();
    run_with_form(&flags, cx, async |form| Box::pin(undo_job(&args, store, form, cx)).await).await
}

async fn undo_job(
    args: &JobUndoArgs,
    store: &JobStore,
    form: &RequestOutputForm,
    cx: CommandContext<'_>,
) -> CommandResult {
    let schemas = cx.load_configured_schemas()?;
    let (changes, fleet, target) = find_changes(args, store, cx).await?;
    let nodes: BTreeSet<Identity> =
        changes.parts.iter().flat_map(|(_, nodes)| nodes.clone()).collect();
    let plans: Vec<(RequestPlan<'_>, &BTreeSet<Identity>)> = changes
        .parts
        .iter()
        .map(|(request, nodes)| Ok((plan_undo(&schemas, &changes, request, args)?, nodes)))
        .collect::<Result<_>>()?;
    let Some((plan, _)) = plans.first() else {
        let id = changes.id.clone();
        return Err(SavedJobError::NothingLeft { id, condition: "was changed by it" }.into());
    };
    warn_of_unknown_nodes(&changes.unknown, cx);
    let preview = || changes.describe_undo(&nodes);
    cx.confirm_request((args.noop, nodes.len(), args.yes), preview).await?;
    let (agent, action) = (plan.ddl.name(), plan.action.name());
    let mut report = RequestReport::empty(agent, action);
    report.noop = args.noop;
    let candidate = JobCandidate {
        request: &FleetRequest { timeout: args.timeout, ..FleetRequest::new(plan) },
        nodes: &nodes,
        filter: &NodeFilter::default(),
        fleet: &fleet,
        target: &target,
        earlier_job: None,
    };
    let journal = open_journal(&candidate, None, cx)?;
    let job_id = journal.as_ref().map(|journal| journal.job_id().to_owned());
    let output = RequestOutput::new(form, None, &args.output, plan.action, cx)
        .with_noop(args.noop)
        .with_job(job_id.clone());
    output.print_found((agent, action), &nodes)?;
    let recorder = JobRecorder::new(journal, &output);
    for (number, (plan, nodes)) in plans.iter().enumerate() {
        recorder.set_has_more(number + 1 < plans.len());
        let (timeout, job) = (args.timeout, job_id.clone());
        let request = FleetRequest { timeout, job, ..FleetRequest::new(plan) };
        let found = Located::from_names((*nodes).clone());
        report = report.merge(fleet.run_request(request, found, &recorder).await?);
        if report.stats.gaps.contains(&ResultGap::Interrupted) || recorder.is_closed() {
            break;
        }
    }
    report.summarize(plan.action);
    output.print_end(&mut report, None)?;
    cx.warn_of_gaps(&report);
    Ok(report.stats.outcome().into())
}

/// The changes of the job, and a connection to its fleet and collective. A request that no job has is looked for in the configured fleet.
async fn find_changes(
    args: &JobUndoArgs,
    store: &JobStore,
    cx: CommandContext<'_>,
) -> Result<(RequestChanges, FleetConnection, TargetSelection)> {
    match store.load_job(&args.job) {
        Err(SavedJobError::Unknown(id)) if may_be_request(&id) => {
            let target = TargetSelection::for_collective(None);
            let fleet = cx.connect(&target).await?;
            let request = PastRequest::find(&id, &fleet).await?;
            Ok((RequestChanges::of_request(request, &fleet), fleet, target))
        }
        job => {
            let job = job?;
            let target = TargetSelection::for_collective(Some(job.header.collective.clone()));
            let fleet = cx.connect(&target).await?;
            fleet.check_job(&job)?;
            Ok((RequestChanges::of_job(job), fleet, target))
        }
    }
}

/// What is undone.
struct RequestChanges {
    /// Of the job, or of the request.
    id: String,
    agent: String,
    action: String,
    fleet: Option<String>,
    /// Each request, and the nodes that it changed.
    parts: Vec<(String, BTreeSet<Identity>)>,
    /// Nodes that may have been changed, but did not report it.
    unknown: BTreeSet<Identity>,
}

impl RequestChanges {
    fn of_job(job: SavedJob) -> Self {
        let (parts, unknown) = (job.changed_parts(), job.unanswered_nodes());
        let JobHeader { id, agent, action, fleet, .. } = job.header;
        Self { id, agent, action, fleet: fleet.map(|fleet| fleet.name), parts, unknown }
    }

    fn of_request(request: PastRequest, fleet: &FleetConnection) -> Self {
        let nodes = request.changed_nodes();
        let PastRequest { id, agent, action, .. } = request;
        let parts = if nodes.is_empty() { Vec::new() } else { vec![(id.clone(), nodes)] };
        let fleet = Some(fleet.job_fleet().name);
        Self { id, agent, action, fleet, parts, unknown: BTreeSet::new() }
    }

    fn describe_undo(&self, nodes: &BTreeSet<Identity>) -> String {
        let (count, names) = (node_count_text(nodes.len()), list_sample_nodes(nodes));
        let fleet = self.fleet.as_ref().map(|name| format!(" of the fleet {name}"));
        format!(
            "Plan: undo {} ({} {}) on {count}{}: {names}\n",
            self.id,
            self.agent,
            self.action,
            fleet.unwrap_or_default()
        )
    }
}

fn plan_undo<'a>(
    schemas: &'a AgentSchemas,
    changes: &RequestChanges,
    request: &str,
    args: &JobUndoArgs,
) -> Result<RequestPlan<'a>> {
    let RequestChanges { agent, action, .. } = changes;
    let words = RequestWords::new(agent, Some(action), &[(UNDO_INPUT, request)]);
    let (ddl, action) = schemas.find_action(&words)?;
    if action.find_input(UNDO_INPUT).is_none() {
        let (agent, action) = (words.agent, action.name().to_owned());
        return Err(SavedJobError::NotUndoable { id: changes.id.clone(), agent, action }.into());
    }
    let mut inputs = words.inputs;
    if args.force {
        inputs.push((FORCE_INPUT.to_owned(), "true".to_owned()));
    }
    if args.noop {
        request_noop(ddl, action, &mut inputs)?;
    }
    Ok(RequestPlan::new(ddl, action, &inputs)?)
}

/// Warns of nodes that may have been changed, but did not report it.
fn warn_of_unknown_nodes(unknown: &BTreeSet<Identity>, cx: CommandContext<'_>) {
    if !unknown.is_empty() {
        let (count, names) = (node_count_text(unknown.len()), list_sample_nodes(unknown));
        cx.printer.print_warning(format_args!(
            "{count} received the request and did not reply, so what it changed there is unknown and not undone: {names}"
        ));
    }
}
