//! `rpc check`: runs a check on all matching nodes and prints one result for Nagios, Prometheus or programs.
//!
//! Every failure after the command line was parsed is the state UNKNOWN, on standard output: a monitoring system reads nothing else.

pub mod args;
pub mod output;

use std::time::Duration;

use muster_base::{error_chain, unix_millis_now};
use muster_contract::nrpe::RunCommandInput;
use muster_contract::nrpe::{CheckState, NrpeAgent, NrpeRunCommand};
use muster_ddl::AgentContract as _;
use muster_operations::check::{
    CheckCache, CheckCacheError, CheckOutcome, CheckRequest, CheckRules, PassiveResult, run_check,
};

use crate::commands::check::args::CheckArgs;
use crate::commands::check::output::{
    CheckDocument, CheckTextOptions, render_check_metrics, render_check_problem, render_check_text,
};
use crate::report::passive_sink::PassiveSinkChoice;
use crate::report::progress::ProgressReporter;
use crate::session::context::{
    CommandContext, CommandError, CommandExitCode, CommandResult, Result,
};

/// How much longer than one check a process waits until another one has asked the nodes.
const LOCK_GRACE: Duration = Duration::from_secs(30);

impl CommandError for CheckCacheError {}

pub async fn run(args: CheckArgs, cx: CommandContext<'_>) -> CommandResult {
    let json = args.json.form()?;
    let (outcome, is_cached) = match find_and_pass_on(&args, cx).await {
        Ok(found) => found,
        Err(error) => (CheckOutcome::Failed(error_chain(&error)), false),
    };
    let rules =
        CheckRules { unknown_as: args.unknown_as.into(), warning: args.warn, critical: args.crit };
    let state = match &outcome {
        CheckOutcome::Report(report) => rules.overall_state(report),
        CheckOutcome::Failed(_) => CheckState::Unknown,
    };
    if let Some(json) = &json {
        cx.print_json(&CheckDocument::new(&args.name, &outcome, state, is_cached), json)?;
    } else {
        let text = match &outcome {
            CheckOutcome::Failed(problem) if args.prometheus => {
                cx.printer.print_error(render_check_problem(&args.name, problem).trim_end());
                String::new()
            }
            CheckOutcome::Failed(problem) => render_check_problem(&args.name, problem),
            CheckOutcome::Report(report) if args.prometheus => render_check_metrics(report, state),
            CheckOutcome::Report(report) => {
                let options = CheckTextOptions {
                    only_replies: args.compat,
                    perfdata: args.perfdata,
                    all_nodes: cx.is_verbose(),
                };
                render_check_text(report, options)
            }
        };
        cx.printer.print_text(text)?;
    }
    Ok(CommandExitCode::from_check_state(state))
}

/// The result, after each node's own was delivered to a monitoring system, if there is one. A pipe is opened before nodes are asked.
async fn find_and_pass_on(
    args: &CheckArgs,
    cx: CommandContext<'_>,
) -> Result<(CheckOutcome, bool)> {
    let sink = PassiveSinkChoice {
        command_file: args.command_file.as_deref(),
        icinga_api: args.icinga_api.as_ref().map(Option::as_deref),
        icinga_ttl: args.icinga_ttl,
    };
    let Some(mut sink) = sink.open(cx)? else { return find_outcome(args, cx).await };
    let (outcome, is_cached) = find_outcome(args, cx).await?;
    if let CheckOutcome::Report(report) = &outcome {
        let results = report.results.iter().map(|result| PassiveResult {
            time: unix_millis_now() / 1000,
            host: result.node.to_string(),
            service: args.name.clone(),
            state: result.state,
            output: result.output.clone(),
            perfdata: result.perfdata.clone(),
            long_output: result.long_output.clone(),
        });
        sink.deliver(results.collect()).await?.check_refused()?;
    }
    Ok((outcome, is_cached))
}

/// The kept result if there is a new one, otherwise the nodes' own. Returns whether it was kept.
async fn find_outcome(args: &CheckArgs, cx: CommandContext<'_>) -> Result<(CheckOutcome, bool)> {
    let target = cx.read_target(&args.filters)?.with_agent(NrpeAgent::NAME)?;
    let settings = cx.settings()?;
    let schemas = cx.load_schemas()?;
    let input = RunCommandInput { command: args.name.clone(), args: args.args.clone() };
    let plan = schemas.plan::<NrpeRunCommand>(&input)?;
    let (command, timeout) = (args.name.as_str(), args.timeout);
    let check =
        CheckRequest { command, plan: &plan, target: &target, timeout, expect: args.expect };
    let ask = async || -> Result<CheckOutcome> {
        let fleet = cx.connect(&target).await?;
        let progress = ProgressReporter::new(cx.printer, !args.json.json && args.json.jq.is_none());
        Ok(CheckOutcome::Report(run_check(&fleet, check, &progress).await?))
    };
    let Some(max_age) = args.cache else { return Ok((ask().await?, false)) };
    let cache = CheckCache::for_check(settings, &check)?;
    if let Some(outcome) = cache.read(max_age, unix_millis_now()) {
        return Ok((outcome, true));
    }
    let action_timeout = timeout.unwrap_or(plan.ddl.timeout_of(plan.action));
    let _lock = cache.lock(action_timeout + LOCK_GRACE).await?;
    if let Some(outcome) = cache.read(max_age, unix_millis_now()) {
        return Ok((outcome, true));
    }
    // A failure is kept, too: otherwise every waiting process would fail after the other.
    let outcome = ask().await.unwrap_or_else(|error| CheckOutcome::Failed(error_chain(&error)));
    cache.write(&outcome, unix_millis_now())?;
    Ok((outcome, false))
}
