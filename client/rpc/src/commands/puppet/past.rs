//! A rollout of runs that was interrupted, as its job tells it: who ran already, and who is still to run, and how.

use std::time::Duration;

use muster_client::Amount;
use muster_client::runs::{Mission, Outcome, Shape};
use serde_json::Value;

use crate::jobs::{Answered, Job, JobError};
use crate::runs::{Ended, Runs};

/// What is left of a job.
#[derive(Debug)]
pub struct Rest {
    /// What is to be done.
    pub mission: Mission,
    /// What came of it so far.
    pub runs: Runs,
}

/// Reads the job. Nodes that answered told how their runs went, and are not asked again; all others are, with the identities that
/// their runs had, so that nobody runs twice.
pub fn rest(job: &Job, silence: Duration, wait: Duration) -> Result<Rest, JobError> {
    let id = job.header.id.clone();
    if job.runs.is_empty() {
        return Err(JobError::NoRuns(id));
    }
    let mut runs = Runs {
        limit: limit(job),
        started: job.header.started,
        job: Some(id.clone()),
        requests: job.requests().into_iter().map(str::to_owned).collect(),
        ..Runs::default()
    };
    for (node, run) in &job.runs {
        if let Some(answer) = job.replies.get(node) {
            let ended = Ended {
                run: *run,
                outcome: outcome(answer),
                earlier: true,
            };
            runs.ended.insert(node.clone(), ended);
        }
    }
    let answered = |node| runs.ended.contains_key(node);
    let left: Vec<_> = job
        .runs
        .iter()
        .filter(|(node, _)| !answered(node))
        .cloned()
        .collect();
    if left.is_empty() {
        let what = "has not run yet";
        return Err(JobError::NothingLeft { id, what });
    }
    let timeout = job.header.shaping.timeout_ms.map(Duration::from_millis);
    let mission = Mission {
        shape: shape(job, &runs, left.len()),
        runs: left,
        data: job.header.inputs.clone(),
        silence,
        timeout,
        wait: timeout.unwrap_or(wait).max(wait),
        ttl: Duration::from_millis(job.header.shaping.ttl_ms),
    };
    Ok(Rest { mission, runs })
}

fn limit(job: &Job) -> Option<usize> {
    let limit = job.header.inputs.get("limit").and_then(Value::as_u64)?;
    usize::try_from(limit).ok()
}

fn outcome(answer: &Answered) -> Outcome {
    Outcome::told(
        answer.statuscode,
        answer.reason.as_ref(),
        &answer.statusmsg,
        answer.data.clone(),
    )
}

/// The job's own shape, for those who are left: the canaries among them, and the failures that may still be borne. Whoever goes on
/// after too many failed bears as many again.
fn shape(job: &Job, runs: &Runs, left: usize) -> Shape {
    let shaping = &job.header.shaping;
    let total = job.runs.len();
    let amount = |text: &Option<String>| text.as_ref()?.parse::<Amount>().ok();
    let canaries = usize::try_from(shaping.canary).unwrap_or(usize::MAX);
    let canaries = job.runs.iter().take(canaries);
    let open = canaries
        .filter(|(node, _)| !runs.ended.contains_key(node))
        .count();
    let bearable = |most: Amount| {
        let most = most.at_most(total);
        Amount::Count(most.checked_sub(runs.bad()).unwrap_or(most))
    };
    Shape {
        limit: runs.limit.unwrap_or(left),
        batch: amount(&shaping.batch).map(|batch| Amount::Count(batch.of(total))),
        canary: open,
        max_failures: amount(&shaping.max_failures).map(bearable),
    }
}
