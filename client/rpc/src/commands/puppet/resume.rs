//! Restores an interrupted rollout from its job: finished nodes, remaining nodes, and limits.

use std::time::Duration;

use muster_calls::RolloutLimits;
use muster_calls::runs::PuppetRolloutSpec;
use muster_client::jobs::{SavedJob, SavedJobError};
use muster_client::{EndedRun, NodeReply, PuppetRunsReport};
use muster_contract::puppet::PuppetRunOnceInput;
use muster_contract::read_values;
use uuid::Uuid;

#[derive(Debug)]
pub struct RemainingRollout {
    pub spec: PuppetRolloutSpec,
    /// Results so far.
    pub runs: PuppetRunsReport,
}

/// Reads the job. Nodes that replied have reported their result and are not asked again. All others are asked with the run identifiers
/// stored in the job, so that no node runs twice.
pub fn remaining_rollout(
    job: &SavedJob,
    silence: Duration,
    wait: Duration,
) -> Result<RemainingRollout, SavedJobError> {
    let id = job.header.id.clone();
    if job.runs.is_empty() {
        return Err(SavedJobError::NoRuns(id));
    }
    let mut runs = PuppetRunsReport {
        limit: job_limit(job),
        started: job.header.started,
        job: Some(id.clone()),
        requests: job.request_ids().into_iter().map(str::to_owned).collect(),
        ..PuppetRunsReport::default()
    };
    for (node, run) in &job.runs {
        if let Some(reply) = job.replies.get(node) {
            let outcome = NodeReply::from(reply).run_outcome();
            let ended = EndedRun { run: *run, outcome, earlier: true };
            runs.ended.insert(node.clone(), ended);
        }
    }
    let has_reply = |node| runs.ended.contains_key(node);
    let left: Vec<_> = job.runs.iter().filter(|(node, _)| !has_reply(node)).cloned().collect();
    if left.is_empty() {
        let condition = "has not run yet";
        return Err(SavedJobError::NothingLeft { id, condition });
    }
    let timeout = job.header.shaping.timeout_ms.map(Duration::from_millis);
    let spec = PuppetRolloutSpec {
        limits: remaining_limits(job, &runs, left.len()),
        runs: left,
        filter: job.header.filter.clone(),
        data: job.header.inputs.clone(),
        rollout: job_limit(job).map(|_| Uuid::now_v7()),
        silence,
        timeout,
        wait: timeout.unwrap_or(wait).max(wait),
        ttl: Duration::from_millis(job.header.shaping.ttl_ms),
    };
    Ok(RemainingRollout { spec, runs })
}

fn job_limit(job: &SavedJob) -> Option<usize> {
    let inputs: PuppetRunOnceInput = read_values(&job.header.inputs).ok()?;
    usize::try_from(inputs.limit?).ok()
}

fn remaining_limits(job: &SavedJob, runs: &PuppetRunsReport, left: usize) -> RolloutLimits {
    let shaping = &job.header.shaping;
    let canaries = usize::try_from(shaping.canary).unwrap_or(usize::MAX);
    let canaries = job.runs.iter().take(canaries);
    let open_canaries = canaries.filter(|(node, _)| !runs.ended.contains_key(node));
    RolloutLimits {
        concurrency: Some(runs.limit.unwrap_or(left)),
        canary: open_canaries.count(),
        ..shaping.remaining_limits(job.runs.len(), runs.unsuccessful_count())
    }
}
