//! `rpc puppet runonce` and `runall`: finds the nodes, saves the job, starts the runs, and prints the results.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use muster_base::{format_duration, unix_millis_now};
use muster_calls::RolloutLimits;
use muster_calls::runs::{PuppetRolloutSpec, RunOrder, RunOutcome};
use muster_client::jobs::{JobEntry, JobJournal, JobStore};
use muster_client::{
    AgentSchemas, EndedRun, FleetConnection, FleetRequest, JobRecorder, Located, NodeRow,
    PuppetRunsReport, RequestPlan, RequestReport, TargetSelection, run_puppet_rollout,
    wait_for_ctrl_c,
};
use muster_contract::puppet::{
    LastRunSummaryInput, LastRunSummaryOutput, PuppetAgent, PuppetLastRunSummary, PuppetRunOnce,
    PuppetRunOnceInput, PuppetStatus,
};
use muster_ddl::{Action, AgentContract as _, EmptyInput};
use muster_display::{list_sample_nodes, node_count_text};
use muster_wire::identity::Identity;
use uuid::Uuid;

use crate::commands::puppet::args::{
    PuppetRolloutArgs, PuppetRunArgs, PuppetRunallArgs, PuppetRunonceArgs,
};
use crate::commands::puppet::output::status::{describe_idle_nodes, node_states};
use crate::commands::puppet::resume::{RemainingRollout, remaining_rollout};
use crate::commands::puppet::run_output::{PuppetOutput, PuppetOutputForm};
use crate::report::progress::ProgressReporter;
use crate::request::inquiry::ask_nodes;
use crate::request::save::{JobCandidate, open_journal};
use crate::session::context::{CommandContext, CommandResult, Result, describe_change};

#[expect(clippy::struct_excessive_bools, reason = "the flags of the command line")]
struct RequestedRollout<'a> {
    limit: Option<u32>,
    args: &'a PuppetRolloutArgs,
    yes: bool,
    random: bool,
    longest_first: bool,
    limits: RolloutLimits,
    /// Run only on nodes where Puppet is enabled. All nodes are asked for that first.
    enabled_only: bool,
}

/// A connection, and what asking several actions of the same nodes needs.
struct PuppetSession<'a> {
    fleet: &'a FleetConnection,
    schemas: &'a AgentSchemas,
    progress: &'a ProgressReporter<'a>,
}

pub async fn run_once(args: &PuppetRunonceArgs, cx: CommandContext<'_>) -> CommandResult {
    let rollout = RequestedRollout {
        limit: args.concurrency,
        args: &args.rollout,
        yes: args.yes,
        random: false,
        longest_first: false,
        limits: RolloutLimits::default(),
        enabled_only: false,
    };
    let output = PuppetOutput::new(&args.rollout.form, false, cx)?;
    report_error(&output, run_round(&rollout, &output).await.map(|runs| runs.outcome().into()))
}

/// Runs Puppet on all matching nodes with limited concurrency, repeatedly if requested.
pub async fn run_all(args: &PuppetRunallArgs, cx: CommandContext<'_>) -> CommandResult {
    let output = PuppetOutput::new(&args.rollout.form, true, cx)?;
    let result = match &args.resume {
        Some(job) => resume_job(job, &args.rollout.options, &output).await,
        None => run_rounds(args, &output).await,
    };
    report_error(&output, result)
}

fn report_error(output: &PuppetOutput<'_>, result: CommandResult) -> CommandResult {
    if let Err(error) = &result {
        output.print_error(error)?;
    }
    result
}

async fn run_rounds(args: &PuppetRunallArgs, output: &PuppetOutput<'_>) -> CommandResult {
    let rollout = RequestedRollout {
        limit: args.limit,
        args: &args.rollout,
        yes: args.yes,
        random: args.random,
        longest_first: args.longest_first,
        limits: args.batches.limits(),
        enabled_only: true,
    };
    loop {
        let started = Instant::now();
        let runs = run_round(&rollout, output).await?;
        let Some(interval) = args.rerun.filter(|_| runs.halt.is_none()) else {
            return Ok(runs.outcome().into());
        };
        let pause = interval.saturating_sub(started.elapsed());
        let pause_text = format_duration(pause);
        output.log_message(&format!("All nodes have run; starting again in {pause_text}"));
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = wait_for_ctrl_c() => return Ok(runs.outcome().into()),
        }
    }
}

/// Finds nodes and runs Puppet on them.
async fn run_round(
    rollout: &RequestedRollout<'_>,
    output: &PuppetOutput<'_>,
) -> Result<PuppetRunsReport> {
    let (cx, PuppetRolloutArgs { options, job, filters, .. }) = (output.cx, rollout.args);
    let target = cx.read_target(filters)?.with_agent(PuppetAgent::NAME)?;
    let schemas = cx.load_schemas()?;
    let plan = schemas.plan::<PuppetRunOnce>(&options.to_input(rollout.limit))?;
    let settings = cx.settings()?;
    target.check_required_filter(plan.action, settings)?;

    let fleet = cx.connect(&target).await?;
    let limit = rollout.limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
    output.log_limit(limit);
    output.log_message("Discovering hosts to run");
    let progress =
        &ProgressReporter::new(cx.printer, matches!(output.form, PuppetOutputForm::Text));
    let session = PuppetSession { fleet: &fleet, schemas: &schemas, progress };
    let found = fleet.locate(&target, progress).await?;
    cx.remember_discovered(&target, &found.nodes);
    let (none_found, filter) = (found.nodes.is_empty(), found.filter.clone());
    let mut runs =
        PuppetRunsReport { limit, started: unix_millis_now(), ..PuppetRunsReport::default() };
    let nodes = if rollout.enabled_only && !none_found {
        session.enabled_nodes(found, &mut runs).await?
    } else {
        found.nodes
    };
    let order = if rollout.random {
        RunOrder::Random(Uuid::now_v7().as_u64_pair().1)
    } else if rollout.longest_first {
        RunOrder::Longest(session.run_times(&nodes).await?)
    } else {
        RunOrder::Name
    };
    let order = order.arrange(&nodes);
    output.print_found(order.iter().collect(), &runs)?;
    if nodes.is_empty() {
        if none_found {
            cx.report_no_nodes(&target);
        } else {
            cx.printer.print_error(describe_idle_nodes(&runs));
        }
        output.print_end(&runs)?;
        return Ok(runs);
    }
    let preview = || {
        let concurrency = rollout.limit.map(|limit| format!("{limit} at a time"));
        let concurrency = concurrency.unwrap_or_else(|| "all at once".to_owned());
        let (count, names) = (node_count_text(nodes.len()), list_sample_nodes(&nodes));
        let scope = describe_change(settings, &target, &plan);
        format!("Plan: puppet runs on {count}, {concurrency}: {names}\n{scope}")
    };
    cx.confirm_request((false, nodes.len(), rollout.yes), preview).await?;

    let order: Vec<(Identity, Uuid)> =
        order.into_iter().map(|node| (node, Uuid::now_v7())).collect();
    let request = FleetRequest {
        timeout: options.timeout,
        limits: rollout.limits,
        ..FleetRequest::new(&plan)
    };
    let candidate = JobCandidate {
        request: &request,
        nodes: &nodes,
        filter: &filter,
        fleet: &fleet,
        target: &target,
        earlier_job: None,
    };
    let mut journal = open_journal(&candidate, job.as_ref(), cx)?;
    if let Some(journal) = &mut journal {
        // The identifier of each node's run is on disk before any request is sent.
        journal.append_entry(&JobEntry::Runs { runs: order.clone() })?;
        journal.sync()?;
        runs.job = Some(journal.job_id().to_owned());
    }
    let concurrency = Some(limit.unwrap_or(nodes.len()));
    let spec = PuppetRolloutSpec {
        limits: RolloutLimits { concurrency, ..rollout.limits },
        runs: order,
        filter,
        data: plan.data.clone(),
        rollout: rollout.limit.map(|_| Uuid::now_v7()),
        silence: options.deadline,
        timeout: options.timeout,
        wait: run_timeout(&plan, options.timeout) + fleet.reply_grace_time(),
        ttl: request.ttl,
    };
    execute_rollout(&fleet, spec, &plan, (runs, journal), output).await
}

/// Resumes a job: nodes that have not replied are asked for the runs stored in the job.
async fn resume_job(
    reference: &str,
    options: &PuppetRunArgs,
    output: &PuppetOutput<'_>,
) -> CommandResult {
    let cx = output.cx;
    let store = JobStore::new(cx.environment.state_home.as_deref())?;
    let schemas = cx.load_configured_schemas()?;
    let plan = schemas.plan::<PuppetRunOnce>(&PuppetRunOnceInput::default())?;
    let (silence, timeout) = (options.deadline, options.timeout);
    // Checks that the job can be resumed before anything is written to it.
    let job = store.load_job(reference)?;
    remaining_rollout(&job, silence, Duration::ZERO)?;
    let target = TargetSelection::for_collective(Some(job.header.collective.clone()));
    let fleet = cx.connect(&target).await?;
    fleet.check_job(&job)?;
    let (job, journal) = store.resume_job(&job.header.id, unix_millis_now())?;
    let wait = run_timeout(&plan, timeout) + fleet.reply_grace_time();
    let RemainingRollout { mut spec, runs } = remaining_rollout(&job, silence, wait)?;
    spec.timeout = timeout.or(spec.timeout);
    let (id, left, ended) = (&job.header.id, spec.runs.len(), runs.ended.len());
    output.log_message(&format!("Resuming job {id}: {left} to run, {ended} have run"));
    output.log_limit(runs.limit);
    let order = spec.runs.iter().map(|(node, _)| node).collect();
    output.print_found(order, &runs)?;
    let runs = execute_rollout(&fleet, spec, &plan, (runs, Some(journal)), output).await?;
    Ok(runs.outcome().into())
}

async fn execute_rollout(
    fleet: &FleetConnection,
    spec: PuppetRolloutSpec,
    plan: &RequestPlan<'_>,
    (runs, journal): (PuppetRunsReport, Option<JobJournal>),
    output: &PuppetOutput<'_>,
) -> Result<PuppetRunsReport> {
    let recorder = JobRecorder::new(journal, output);
    let runs = run_puppet_rollout(fleet, spec, plan.action, runs, &recorder).await;
    output.print_end(&runs)?;
    Ok(runs)
}

impl PuppetSession<'_> {
    async fn query<A: Action>(&self, input: &A::Input, found: Located) -> Result<RequestReport> {
        let plan = self.schemas.plan::<A>(input)?;
        ask_nodes(self.fleet, &plan, found, self.progress).await
    }

    /// Nodes that do not reply are not run and are reported as silent.
    async fn enabled_nodes(
        &self,
        found: Located,
        runs: &mut PuppetRunsReport,
    ) -> Result<BTreeSet<Identity>> {
        let report = self.query::<PuppetStatus>(&EmptyInput {}, found).await?;
        let mut nodes = BTreeSet::new();
        for state in node_states(&report) {
            match state.disable_reason() {
                None => drop(nodes.insert(state.node().clone())),
                Some(message) => drop(runs.disabled.insert(state.node().clone(), message)),
            }
        }
        let silent = report.stats.missing.iter().map(|node| {
            (node, RunOutcome::state_unknown(report.stats.not_connected.contains(node)))
        });
        let failed = report.failures().map(|reply| (&reply.node, reply.run_outcome()));
        runs.ended.extend(silent.chain(failed).map(|(node, outcome)| {
            (node.clone(), EndedRun { run: Uuid::nil(), outcome, earlier: false })
        }));
        Ok(nodes)
    }

    /// How long the last run of each node took.
    async fn run_times(&self, nodes: &BTreeSet<Identity>) -> Result<BTreeMap<Identity, Duration>> {
        let found = Located::from_names(nodes.clone());
        let input = LastRunSummaryInput { logs: false };
        let report = self.query::<PuppetLastRunSummary>(&input, found).await?;
        let run_time = |NodeRow { node, outputs }: NodeRow<LastRunSummaryOutput>| {
            Some((node, Duration::try_from_secs_f64(outputs.total_time?).ok()?))
        };
        Ok(report.rows().into_iter().filter_map(run_time).collect())
    }
}

/// Timeout of a run, including its waiting time.
fn run_timeout(plan: &RequestPlan<'_>, timeout: Option<Duration>) -> Duration {
    timeout.unwrap_or(plan.ddl.timeout_of(plan.action))
}
