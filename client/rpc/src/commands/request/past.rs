//! A request that follows from an earlier one: a job whose failures are retried, or that goes on where it was interrupted.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_client::{Amount, Rollout};
use muster_wire::identity::Identity;
use serde_json::{Map, Value};

use crate::ask::{Question, Words};
use crate::cli::errand::Errand;
use crate::cli::pace::Pace;
use crate::environment::Environment;
use crate::jobs::{Job, JobError, State, Store};

/// Inputs that are still to be read, and inputs as values.
type PastInputs = (Vec<(String, String)>, Map<String, Value>);

/// An earlier job, and what is wanted of it.
#[derive(Debug)]
pub struct Past {
    /// The job.
    pub job: Job,
    /// Whether it goes on, or its failures are retried.
    pub resumes: bool,
}

impl Past {
    /// The job that the flags name, if they do.
    pub fn of(errand: &Errand, environment: &Environment) -> Result<Option<Self>, JobError> {
        let (reference, resumes) = match (&errand.resume, &errand.retry_failed) {
            (Some(job), _) => (job, true),
            (None, Some(job)) => (job, false),
            (None, None) => return Ok(None),
        };
        let job = Store::new(environment.state_home.as_deref())?.load(reference)?;
        if job.state() == State::Running {
            return Err(JobError::Running(job.header.id));
        }
        if !job.runs.is_empty() {
            return Err(JobError::Runs(job.header.id));
        }
        Ok(Some(Self { job, resumes }))
    }

    /// The words that asked for it, without inputs.
    pub fn words(&self) -> Words {
        Words {
            agent: self.job.header.agent.clone(),
            action: Some(self.job.header.action.clone()),
            inputs: Vec::new(),
        }
    }

    /// Whom to ask now, if it is the same that is asked.
    pub fn nodes(&self, agent: &str, action: &str) -> Result<BTreeSet<Identity>, JobError> {
        let header = &self.job.header;
        if (header.agent.as_str(), header.action.as_str()) != (agent, action) {
            return Err(JobError::OtherRequest {
                id: header.id.clone(),
                was: format!("{} {}", header.agent, header.action),
                given: format!("{agent} {action}"),
            });
        }
        let (nodes, what) = if self.resumes {
            (self.job.never_asked(), "was never asked")
        } else {
            (self.job.bad(), "failed or did not answer")
        };
        if nodes.is_empty() {
            let id = header.id.clone();
            return Err(JobError::NothingLeft { id, what });
        }
        Ok(nodes)
    }

    /// The inputs that are still to be read, and those of the job. What was sensitive was not kept, and is asked for again; what was kept as a
    /// digest must be given again.
    pub fn inputs(&self, given: &[(String, String)]) -> Result<PastInputs, JobError> {
        let header = &self.job.header;
        let mut inputs = given.to_vec();
        let is_given = |name: &str| given.iter().any(|(given, _)| given == name);
        if let Some(name) = header.digested.iter().find(|name| !is_given(name)) {
            return Err(JobError::Digested {
                id: header.id.clone(),
                input: name.clone(),
            });
        }
        for name in header.sensitive.iter().filter(|name| !is_given(name)) {
            inputs.push((name.clone(), "-".to_owned()));
        }
        let mut base = header.inputs.clone();
        base.retain(|name, _| !header.sensitive.contains(name) && !is_given(name));
        Ok((inputs, base))
    }

    /// Goes on in the job's own waves and times, unless others were given. Retrying begins anew.
    pub fn shape(&self, question: &mut Question<'_>, pace: &Pace) {
        let given = pace.rollout() != Rollout::default();
        if !self.resumes || given {
            return;
        }
        let shaping = &self.job.header.shaping;
        let total = self.job.header.nodes.len();
        let amount = |text: &Option<String>| text.as_ref()?.parse::<Amount>().ok();
        question.rollout = Rollout {
            canary: self.canaries(shaping.canary),
            batch: amount(&shaping.batch).map(|batch| Amount::Count(batch.of(total))),
            max_failures: amount(&shaping.max_failures)
                .map(|most| self.bearable(most.at_most(total))),
        };
        question.pause = Duration::from_millis(shaping.pause_ms);
        question.ttl = Duration::from_millis(shaping.ttl_ms);
        question.timeout = question
            .timeout
            .or(shaping.timeout_ms.map(Duration::from_millis));
    }

    /// Canaries once more, unless all of them have succeeded before.
    fn canaries(&self, canary: u32) -> usize {
        let canary = usize::try_from(canary).unwrap_or(usize::MAX);
        let mut first = self.job.header.nodes.iter().take(canary);
        let passed = |node| {
            self.job
                .replies
                .get(node)
                .is_some_and(crate::jobs::Answered::is_ok)
        };
        if first.all(passed) { 0 } else { canary }
    }

    /// What is left of the failures that may be borne; all of them again, if they were exceeded and somebody goes on in spite of it.
    fn bearable(&self, most: usize) -> Amount {
        Amount::Count(most.checked_sub(self.job.bad().len()).unwrap_or(most))
    }
}
