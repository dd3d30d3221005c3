//! `status`: current activity of Puppet on the node.

use std::sync::Arc;

use muster_api::base::since_epoch;
use muster_api::system::System;
use muster_api::{ActionError, BlockingContext, EmptyInput};
use muster_contract::puppet::PuppetStatusOutput;

use super::{find_paths, format_elapsed};
use crate::classification;
use crate::files::activity::{AgentActivity, LockHolder, read_activity};
use crate::files::summary::PuppetRunSummary;
use crate::options::CatalogEngine;
use crate::program;
use crate::runs::PuppetRunManager;

pub(crate) fn query_status(
    runs: &Arc<PuppetRunManager>,
    cx: &BlockingContext,
    _: EmptyInput,
) -> Result<PuppetStatusOutput, ActionError> {
    let system = &*cx.system;
    let activity = read_agent_activity(runs, system)?;
    Ok(describe_activity(runs, system, &activity))
}

/// What the files of Puppet and of the engine say. Where the engine has run, or should, Puppet need not be installed.
pub(crate) fn read_agent_activity(
    runs: &PuppetRunManager,
    system: &dyn System,
) -> Result<AgentActivity, ActionError> {
    let (paths, engine) = (find_paths(&runs.options, system), runs.engine_dir());
    let activity = read_activity(system, paths.as_ref().ok(), &engine)?;
    let is_known = runs.options.engine == CatalogEngine::Native || activity.last_run.is_some();
    match paths {
        Err(error) if !is_known => Err(error),
        _ => Ok(activity),
    }
}

/// The status of Puppet, with the run of this agent.
pub(crate) fn describe_activity(
    runs: &PuppetRunManager,
    system: &dyn System,
    activity: &AgentActivity,
) -> PuppetStatusOutput {
    let current = runs.current_outcome();
    let is_ours = current
        .as_ref()
        .is_some_and(|outcome| !outcome.state.is_waiting() && !outcome.state.is_over());
    let now = since_epoch(system.now());
    let summary = activity.summary();
    let lastrun = summary.and_then(PuppetRunSummary::last_run);
    let since = lastrun.map(|then| now.as_secs().saturating_sub(then));
    let (status, applying) = match activity.status_name() {
        "disabled" => ("disabled", activity.run.is_held() || is_ours),
        _ if is_ours => ("applying a catalog", true),
        other => (other, activity.run.is_held()),
    };
    let last = since.map_or_else(
        || "last completed run unknown".to_owned(),
        |since| format!("last completed run {} ago", format_elapsed(since)),
    );
    let holder = match activity.run {
        _ if is_ours => "ours",
        LockHolder::Nobody => "none",
        LockHolder::Stale(_) => "stale",
        LockHolder::Process(pid) if pid == std::process::id() => "ours",
        LockHolder::Process(_) => "puppet",
    };
    PuppetStatusOutput {
        applying,
        idling: activity.daemon_present && !applying,
        enabled: activity.disabled.is_none(),
        daemon_present: activity.daemon_present,
        message: format!("Currently {status}; {last}").into(),
        status: status.into(),
        disable_message: activity.disabled.clone().unwrap_or_default().into(),
        lastrun: lastrun.unwrap_or_default(),
        since_lastrun: since.unwrap_or_default(),
        last_class: summary.map(classification::class_by_counts),
        last_failed: summary.map(PuppetRunSummary::failure_count),
        holder: holder.to_owned(),
        holder_pid: activity.run.pid().map(u64::from),
        run: current.as_ref().map(|outcome| outcome.run.clone()),
        run_state: current.map(|outcome| outcome.state.as_str().to_owned()),
        pending: program::owed_targets(&runs.engine_dir()).len() as u64,
        engine: runs.options.engine.as_str().to_owned(),
    }
}
