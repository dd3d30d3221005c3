//! A request that continues an earlier job: retries its failures, or resumes it after an interruption.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_calls::RolloutLimits;
use muster_client::jobs::{JobState, JobStore, SavedJob, SavedJobError};
use muster_client::{FleetRequest, RequestWords};
use muster_wire::identity::Identity;
use serde_json::{Map, Value};

use crate::flags::request_flags::RequestFlags;
use crate::flags::rollout_flags::PaceArgs;
use crate::session::environment::ProcessEnvironment;

/// Inputs that are still to be parsed, and inputs as values.
type EarlierInputs = (Vec<(String, String)>, Map<String, Value>);

/// An earlier job, and how to continue it.
#[derive(Debug)]
pub struct EarlierJob {
    pub job: SavedJob,
    /// Whether the job is resumed; otherwise its failures are retried.
    pub resumes: bool,
}

impl EarlierJob {
    pub fn from_flags(
        flags: &RequestFlags,
        environment: &ProcessEnvironment,
    ) -> Result<Option<Self>, SavedJobError> {
        let (reference, resumes) = match (&flags.resume, &flags.retry_failed) {
            (Some(job), _) => (job, true),
            (None, Some(job)) => (job, false),
            (None, None) => return Ok(None),
        };
        let job = JobStore::new(environment.state_home.as_deref())?.load_job(reference)?;
        if job.state() == JobState::Running {
            return Err(SavedJobError::Running(job.header.id));
        }
        if !job.runs.is_empty() {
            return Err(SavedJobError::Runs(job.header.id));
        }
        Ok(Some(Self { job, resumes }))
    }

    /// Agent and action of the job, without inputs.
    pub fn request_words(&self) -> RequestWords {
        RequestWords::new(&self.job.header.agent, Some(&self.job.header.action), &[])
    }

    /// The nodes to ask, if agent and action are the same.
    pub fn remaining_nodes(
        &self,
        agent: &str,
        action: &str,
    ) -> Result<BTreeSet<Identity>, SavedJobError> {
        let header = &self.job.header;
        if (header.agent.as_str(), header.action.as_str()) != (agent, action) {
            return Err(SavedJobError::OtherRequest {
                id: header.id.clone(),
                saved: format!("{} {}", header.agent, header.action),
                given: format!("{agent} {action}"),
            });
        }
        let (nodes, condition) = if self.resumes {
            (self.job.never_asked_nodes(), "still has to be called")
        } else {
            (self.job.unsuccessful_nodes(), "failed or did not reply")
        };
        if nodes.is_empty() {
            let id = header.id.clone();
            return Err(SavedJobError::NothingLeft { id, condition });
        }
        Ok(nodes)
    }

    /// Sensitive inputs were not saved and are asked for again. Inputs that were saved as a digest must be given again.
    pub fn merge_inputs(&self, given: &[(String, String)]) -> Result<EarlierInputs, SavedJobError> {
        let header = &self.job.header;
        let mut inputs = given.to_vec();
        let is_given = |name: &str| given.iter().any(|(given, _)| given == name);
        if let Some(name) = header.digested.iter().find(|name| !is_given(name)) {
            return Err(SavedJobError::Digested { id: header.id.clone(), input: name.clone() });
        }
        for name in header.sensitive.iter().filter(|name| !is_given(name)) {
            inputs.push((name.clone(), "-".to_owned()));
        }
        let mut base = header.inputs.clone();
        base.retain(|name, _| !header.sensitive.contains(name) && !is_given(name));
        Ok((inputs, base))
    }

    /// Applies the job's batch sizes and timings to a resumed request, unless others were given. A retry does not inherit them.
    pub fn apply_shaping(&self, request: &mut FleetRequest<'_>, pace: &PaceArgs) {
        if !self.resumes {
            return;
        }
        let shaping = &self.job.header.shaping;
        request.pause = pace.batch_sleep.unwrap_or(Duration::from_millis(shaping.pause_ms));
        if pace.batches.limits() != RolloutLimits::default() {
            return;
        }
        request.limits = RolloutLimits {
            canary: self.remaining_canaries(shaping.canary),
            ..shaping
                .remaining_limits(self.job.header.nodes.len(), self.job.unsuccessful_nodes().len())
        };
        request.ttl = Duration::from_millis(shaping.ttl_ms);
        request.timeout = request.timeout.or(shaping.timeout_ms.map(Duration::from_millis));
    }

    /// Number of canaries: the original number again, unless all canaries have succeeded.
    fn remaining_canaries(&self, canary: u32) -> usize {
        let canary = usize::try_from(canary).unwrap_or(usize::MAX);
        let mut first = self.job.header.nodes.iter().take(canary);
        let has_passed =
            |node| self.job.replies.get(node).is_some_and(muster_client::jobs::JobReply::is_ok);
        if first.all(has_passed) { 0 } else { canary }
    }
}
