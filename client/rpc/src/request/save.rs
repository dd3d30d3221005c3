//! Decides whether a request is saved as a job, and what is saved of it.

use std::collections::BTreeSet;

use muster_base::{duration_millis, error_chain, unix_millis_now};
use muster_client::jobs::{
    JOB_LINES_SCHEMA, JobHeader, JobJournal, JobPacing, JobStore, new_job_id,
};
use muster_client::{
    FleetConnection, FleetRequest, FleetRequestError, RequestPlan, TargetSelection,
};
use muster_filter::NodeFilter;
use muster_wire::content::digest_contents;
use muster_wire::identity::{Identity, SubjectName};

use crate::request::resume::EarlierJob;
use crate::session::context::CommandContext;

/// A request that may be saved.
#[derive(Debug)]
pub struct JobCandidate<'a> {
    pub request: &'a FleetRequest<'a>,
    pub nodes: &'a BTreeSet<Identity>,
    /// What each of them must match when it gets the request.
    pub filter: &'a NodeFilter,
    pub fleet: &'a FleetConnection,
    pub target: &'a TargetSelection,
    /// The earlier job that the request continues or retries.
    pub earlier_job: Option<&'a EarlierJob>,
}

/// Opens the journal of the request: a new one, or that of the resumed job. A read-only request is saved only if it has a job
/// name or follows from an earlier job. If the journal was not requested and cannot be written, the request continues without it.
pub fn open_journal(
    candidate: &JobCandidate<'_>,
    name: Option<&SubjectName>,
    cx: CommandContext<'_>,
) -> Result<Option<JobJournal>, FleetRequestError> {
    let resumed = candidate.earlier_job.filter(|earlier_job| earlier_job.resumes);
    let is_requested = name.is_some() || candidate.earlier_job.is_some();
    let is_unneeded = candidate.nodes.is_empty()
        || (candidate.request.plan.action.is_read_only() && !is_requested);
    if is_unneeded {
        return Ok(None);
    }
    let opened =
        JobStore::new(cx.environment.state_home.as_deref()).and_then(|store| match resumed {
            Some(earlier_job) => {
                Ok(store.resume_job(&earlier_job.job.header.id, unix_millis_now())?.1)
            }
            None => store.begin_job(job_header(candidate, name)),
        });
    match opened {
        Ok(journal) => Ok(Some(journal)),
        Err(error) if is_requested => Err(error.into()),
        Err(error) => {
            let reason = error_chain(&error);
            cx.printer.print_warning(format_args!(
                "this request is not saved as a job and cannot be resumed or retried: {reason}"
            ));
            Ok(None)
        }
    }
}

fn job_header(candidate: &JobCandidate<'_>, name: Option<&SubjectName>) -> JobHeader {
    let RequestPlan { ddl, action, data } = candidate.request.plan;
    let sensitive = data.keys().filter(|name| action.is_sensitive(name));
    let (inputs, digested) = digest_contents(&action.redact_input(data));
    let started = unix_millis_now();
    let rollout = candidate.request.limits;
    JobHeader {
        schema: JOB_LINES_SCHEMA.to_owned(),
        id: new_job_id(started),
        name: name.cloned(),
        started,
        fleet: Some(candidate.fleet.job_fleet()),
        collective: candidate.fleet.collective().clone(),
        agent: ddl.name().to_owned(),
        action: action.name().to_owned(),
        read_only: action.is_read_only(),
        inputs,
        digested,
        sensitive: sensitive.cloned().collect(),
        target: candidate.target.filter.explain(),
        nodes: candidate.nodes.clone(),
        filter: candidate.filter.clone(),
        shaping: JobPacing {
            canary: u32::try_from(rollout.canary).unwrap_or(u32::MAX),
            batch: rollout.batch.map(|amount| amount.to_string()),
            max_failures: rollout.max_failures.map(|amount| amount.to_string()),
            pause_ms: duration_millis(candidate.request.pause),
            timeout_ms: candidate.request.timeout.map(duration_millis),
            ttl_ms: duration_millis(candidate.request.ttl),
        },
        retry_of: candidate.earlier_job.map(|earlier_job| earlier_job.job.header.id.clone()),
    }
}
