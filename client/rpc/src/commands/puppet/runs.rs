//! `rpc puppet runonce` and `runall`: finds the nodes, saves the job, starts the runs, and prints the results.

use muster_base::unix_millis_now;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use muster_client::RolloutLimits;
use muster_client::runs::{PuppetRolloutSpec, RunOrder, RunOutcome};
use muster_contract::puppet::LastRunSummaryOutput;
use muster_wire::identity::{Identity, SubjectName};
use uuid::Uuid;

use super::PUPPET_AGENT;
use super::output::{PuppetOutput, PuppetOutputForm};
use super::resume::{RemainingRollout, remaining_rollout};
use crate::ask::{
    AgentSchemas, ConfirmContext, ConfirmDecision, DiscoveredNodes, FleetConnection, FleetRequest,
    FleetRequestError, JobRecorder, ProgressReporter, RequestPlan, TargetSelection,
    ask_confirmation, is_terminal,
};
use crate::cli::filters::FilterArgs;
use crate::cli::puppet::{PuppetRunArgs, PuppetRunallArgs, PuppetRunonceArgs};
use crate::cli::request_flags::RequestFlags;
use crate::commands::context::{CommandContext, CommandResult, Error};
use crate::commands::inquiry;
use crate::commands::request::save::{JobCandidate, open_journal};
use crate::jobs::{JobEntry, JobJournal, JobStore};
use crate::render::plan::{list_sample_nodes, node_count_text};
use crate::render::puppet::status::node_states;
use crate::report::NodeReply;
use crate::runs::{EndedRun, PuppetRunsReport};
use crate::settings::RpcSettings;

/// Options that both commands share.
struct RolloutArgs<'a> {
    limit: Option<u32>,
    options: &'a PuppetRunArgs,
    filters: &'a FilterArgs,
    yes: bool,
    job: Option<&'a SubjectName>,
    order: NodeSorting,
    limits: RolloutLimits,
    /// Run only on nodes where Puppet is enabled. All nodes are asked for that first.
    enabled_only: bool,
}

/// Order in which nodes run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NodeSorting {
    Name,
    Random,
    Longest,
}

/// The nodes that will run, and their known state before.
struct RunCandidates {
    nodes: BTreeSet<Identity>,
    runs: PuppetRunsReport,
}

/// Runs Puppet once on all matching nodes.
pub async fn run_once(args: &PuppetRunonceArgs, cx: CommandContext<'_>) -> CommandResult {
    let rollout_args = RolloutArgs {
        limit: args.concurrency,
        options: &args.options,
        filters: &args.filters,
        yes: args.yes,
        job: args.job.as_ref(),
        order: NodeSorting::Name,
        limits: RolloutLimits::default(),
        enabled_only: false,
    };
    let form = PuppetOutputForm::from_flags(&args.form)?;
    let (form, logs) = (&form, false);
    let output = PuppetOutput { form, logs, cx };
    report_error(&output, run_round(&rollout_args, output).await.map(|runs| runs.exit_code()))
}

/// Runs Puppet on all matching nodes with limited concurrency, repeatedly if requested.
pub async fn run_all(args: &PuppetRunallArgs, cx: CommandContext<'_>) -> CommandResult {
    let form = PuppetOutputForm::from_flags(&args.form)?;
    let (form, logs) = (&form, true);
    let output = PuppetOutput { form, logs, cx };
    let result = match &args.resume {
        Some(job) => resume_job(job, args, output).await,
        None => run_rounds(args, output).await,
    };
    report_error(&output, result)
}

fn report_error(output: &PuppetOutput<'_>, result: CommandResult) -> CommandResult {
    if let Err(error) = &result {
        output.print_error(error)?;
    }
    result
}

async fn run_rounds(args: &PuppetRunallArgs, output: PuppetOutput<'_>) -> CommandResult {
    let rollout_args = RolloutArgs {
        limit: args.limit,
        options: &args.options,
        filters: &args.filters,
        yes: args.yes,
        job: args.job.as_ref(),
        order: match (args.random, args.longest_first) {
            (true, _) => NodeSorting::Random,
            (_, true) => NodeSorting::Longest,
            _ => NodeSorting::Name,
        },
        limits: args.batches.limits(),
        enabled_only: true,
    };
    loop {
        let started = Instant::now();
        let runs = run_round(&rollout_args, output).await?;
        let Some(interval) = args.rerun.filter(|_| runs.halt.is_none()) else {
            return Ok(runs.exit_code());
        };
        let pause = interval.saturating_sub(started.elapsed());
        output.log_message(&format!("All nodes have run; starting again in {} s", pause.as_secs()));
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = tokio::signal::ctrl_c() => return Ok(runs.exit_code()),
        }
    }
}

/// Finds nodes and runs Puppet on them.
async fn run_round(
    rollout_args: &RolloutArgs<'_>,
    output: PuppetOutput<'_>,
) -> Result<PuppetRunsReport, Error> {
    let cx = output.cx;
    let target = cx.read_target(rollout_args.filters)?.with_agent(PUPPET_AGENT)?;
    let settings = cx.load_settings_if_any()?;
    let schemas = cx.load_schemas(settings.as_ref())?;
    let mut inputs = rollout_args.options.to_inputs();
    inputs.extend(rollout_args.limit.map(|limit| ("limit", limit.to_string())));
    let inputs: Vec<_> = inputs.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let plan = inquiry::plan_action(&schemas, (PUPPET_AGENT, "runonce"), &inputs)?;
    let settings = settings.map_or_else(|| cx.load_settings(), Ok)?;
    let source = target.discovery_source(Some(&settings))?;
    target.check_required_filter(&source, plan.action, &settings)?;

    let fleet = FleetConnection::connect(&settings, &target).await?;
    if let Some(limit) = rollout_args.limit {
        output.log_message(&format!("Running all machines with a concurrency of {limit}"));
    }
    output.log_message("Discovering hosts to run");
    let progress = ProgressReporter::new(cx.printer, matches!(output.form, PuppetOutputForm::Text));
    let found = fleet.discover_nodes(&target, &progress).await?;
    cx.remember_nodes(&found.nodes);
    let started = unix_millis_now();
    let runs = PuppetRunsReport {
        limit: rollout_args.limit.map(to_usize),
        started,
        ..PuppetRunsReport::default()
    };
    let none_found = found.nodes.is_empty();
    let candidates = if rollout_args.enabled_only && !none_found {
        enabled_nodes(&fleet, &schemas, found, runs, &progress).await?
    } else {
        let nodes = found.nodes;
        RunCandidates { nodes, runs }
    };
    let RunCandidates { nodes, mut runs } = candidates;
    let order = order_nodes(rollout_args.order, &fleet, &schemas, &nodes, &progress).await?;
    output.print_found(order.iter().collect(), &runs)?;
    if nodes.is_empty() {
        if none_found {
            cx.report_no_nodes(&target);
        } else {
            cx.printer.print_error(
                "nothing to run: Puppet is disabled on all nodes, or they do not reply",
            );
        }
        output.print_end(&runs)?;
        return Ok(runs);
    }
    confirm_runs(rollout_args, &nodes, &settings, cx).await?;

    let order: Vec<(Identity, Uuid)> =
        order.into_iter().map(|node| (node, Uuid::now_v7())).collect();
    let request = FleetRequest {
        timeout: rollout_args.options.timeout,
        limits: rollout_args.limits,
        ..FleetRequest::new(&plan)
    };
    let candidate = JobCandidate {
        request: &request,
        nodes: &nodes,
        collective: fleet.collective(),
        target: &target,
        earlier_job: None,
    };
    let journal = open_run_journal(&candidate, rollout_args.job, &order, cx)?;
    runs.job = journal.as_ref().map(|journal| journal.job_id().to_owned());
    let spec = PuppetRolloutSpec {
        limits: RolloutLimits {
            concurrency: Some(runs.limit.unwrap_or(nodes.len())),
            ..rollout_args.limits
        },
        runs: order,
        data: plan.data.clone(),
        silence: rollout_args.options.deadline,
        timeout: rollout_args.options.timeout,
        wait: run_timeout(&plan, rollout_args.options.timeout) + fleet.reply_grace_time(),
        ttl: request.ttl,
    };
    execute_rollout(&fleet, spec, &plan, (runs, journal), output).await
}

/// Resumes a job: nodes that have not replied are asked for the runs stored in the job.
async fn resume_job(
    reference: &str,
    args: &PuppetRunallArgs,
    output: PuppetOutput<'_>,
) -> CommandResult {
    let cx = output.cx;
    let store = JobStore::new(cx.environment.state_home.as_deref())?;
    let settings = cx.load_settings()?;
    let schemas = cx.load_schemas(Some(&settings))?;
    let plan = inquiry::plan_action(&schemas, (PUPPET_AGENT, "runonce"), &[])?;
    let (silence, timeout) = (args.options.deadline, args.options.timeout);
    // Checks that the job can be resumed before anything is written to it.
    let job = store.load_job(reference)?;
    remaining_rollout(&job, silence, Duration::ZERO)?;
    let target = TargetSelection::for_collective(Some(job.header.collective.clone()));
    let fleet = FleetConnection::connect(&settings, &target).await?;
    let (job, journal) = store.resume_job(&job.header.id, unix_millis_now())?;
    let wait = run_timeout(&plan, timeout) + fleet.reply_grace_time();
    let RemainingRollout { mut spec, runs } = remaining_rollout(&job, silence, wait)?;
    spec.timeout = timeout.or(spec.timeout);
    output.log_message(&format!(
        "Resuming job {}: {} to run, {} have run",
        job.header.id,
        spec.runs.len(),
        runs.ended.len()
    ));
    if let Some(limit) = runs.limit {
        output.log_message(&format!("Running all machines with a concurrency of {limit}"));
    }
    let order = spec.runs.iter().map(|(node, _)| node).collect();
    output.print_found(order, &runs)?;
    let runs = execute_rollout(&fleet, spec, &plan, (runs, Some(journal)), output).await?;
    Ok(runs.exit_code())
}

async fn execute_rollout(
    fleet: &FleetConnection,
    spec: PuppetRolloutSpec,
    plan: &RequestPlan<'_>,
    (runs, journal): (PuppetRunsReport, Option<JobJournal>),
    output: PuppetOutput<'_>,
) -> Result<PuppetRunsReport, Error> {
    let mut recorder = JobRecorder::new(journal, output.cx.printer);
    let rollout = fleet.run_puppet_rollout(spec, plan.action, (runs, &mut recorder), |notice| {
        output.print_news(notice)
    });
    let runs = rollout.await?;
    output.print_end(&runs)?;
    Ok(runs)
}

/// The nodes where Puppet is enabled. Nodes that do not reply are not run and are reported as silent.
async fn enabled_nodes(
    fleet: &FleetConnection,
    schemas: &AgentSchemas,
    found: DiscoveredNodes,
    mut runs: PuppetRunsReport,
    progress: &ProgressReporter<'_>,
) -> Result<RunCandidates, Error> {
    let plan = inquiry::plan_action(schemas, (PUPPET_AGENT, "status"), &[])?;
    let report = inquiry::ask_nodes(fleet, &plan, found, progress).await?;
    let mut nodes = BTreeSet::new();
    for state in node_states(&report) {
        match state.disable_reason() {
            None => drop(nodes.insert(state.node().clone())),
            Some(message) => drop(runs.disabled.insert(state.node().clone(), message)),
        }
    }
    for node in &report.stats.missing {
        let not_connected = report.stats.not_connected.contains(node);
        let outcome = RunOutcome::state_unknown(not_connected);
        runs.ended.insert(node.clone(), ended_run(outcome));
    }
    for reply in report.replies.iter().filter(|reply| !reply.is_ok()) {
        let outcome = RunOutcome::from_saved_reply(
            reply.status,
            reply.reason.as_ref(),
            &reply.message,
            reply.data.clone(),
        );
        runs.ended.insert(reply.node.clone(), ended_run(outcome));
    }
    Ok(RunCandidates { nodes, runs })
}

fn ended_run(outcome: RunOutcome) -> EndedRun {
    EndedRun { run: Uuid::nil(), outcome, earlier: false }
}

/// Sorts the nodes.
async fn order_nodes(
    sorting: NodeSorting,
    fleet: &FleetConnection,
    schemas: &AgentSchemas,
    nodes: &BTreeSet<Identity>,
    progress: &ProgressReporter<'_>,
) -> Result<Vec<Identity>, Error> {
    let order = match sorting {
        NodeSorting::Name => RunOrder::Name,
        NodeSorting::Random => {
            let (_, seed) = Uuid::now_v7().as_u64_pair();
            RunOrder::Random(seed)
        }
        NodeSorting::Longest => {
            let plan = inquiry::plan_action(schemas, (PUPPET_AGENT, "last_run_summary"), &[])?;
            let found = DiscoveredNodes::from_names(nodes.clone());
            let report = inquiry::ask_nodes(fleet, &plan, found, progress).await?;
            let run_time = |reply: &NodeReply| {
                let summary: LastRunSummaryOutput = reply.typed_outputs();
                Duration::try_from_secs_f64(summary.total_time?).ok()
            };
            let run_times = report.replies.iter();
            let run_times =
                run_times.filter_map(|reply| Some((reply.node.clone(), run_time(reply)?)));
            RunOrder::Longest(run_times.collect::<BTreeMap<_, _>>())
        }
    };
    Ok(order.arrange(nodes))
}

/// Asks for confirmation of the number of nodes, if required.
async fn confirm_runs(
    rollout_args: &RolloutArgs<'_>,
    nodes: &BTreeSet<Identity>,
    settings: &RpcSettings,
    cx: CommandContext<'_>,
) -> Result<(), FleetRequestError> {
    let context = ConfirmContext {
        read_only: false,
        nodes: nodes.len(),
        yes: rollout_args.yes,
        terminal: is_terminal(),
    };
    match settings.confirm.decide(settings.confirm_above, context) {
        ConfirmDecision::Go => Ok(()),
        ConfirmDecision::Refuse => Err(FleetRequestError::Unconfirmed),
        ConfirmDecision::Ask => {
            let concurrency = rollout_args
                .limit
                .map_or("all at once".to_owned(), |limit| format!("{limit} at a time"));
            let (node_count, names) = (node_count_text(nodes.len()), list_sample_nodes(nodes));
            let text = format!(
                "Plan: puppet runs on {node_count}, {concurrency}: {names}\nContinue? [y/N]"
            );
            let yes = ask_confirmation(&text, cx.printer).await?;
            yes.then_some(()).ok_or(FleetRequestError::Declined)
        }
    }
}

/// Creates the job's journal, with the identifier of each node's run, before any request is sent.
fn open_run_journal(
    candidate: &JobCandidate<'_>,
    name: Option<&SubjectName>,
    order: &[(Identity, Uuid)],
    cx: CommandContext<'_>,
) -> Result<Option<JobJournal>, FleetRequestError> {
    let flags = RequestFlags { job: name.cloned(), ..RequestFlags::default() };
    let Some(mut journal) = open_journal(candidate, &flags, cx)? else {
        return Ok(None);
    };
    journal.append_entry(&JobEntry::Runs { runs: order.to_vec() })?;
    journal.sync()?;
    Ok(Some(journal))
}

/// Timeout of a run, including its waiting time.
fn run_timeout(plan: &RequestPlan<'_>, timeout: Option<Duration>) -> Duration {
    timeout.unwrap_or(plan.ddl.timeout_of(plan.action))
}

fn to_usize(count: u32) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}
