//! Whether a request is kept as a job, and what of it.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_wire::content::digest_contents;
use muster_wire::identity::{Identity, Name};

use super::past::Past;
use crate::ask::{AskError, Plan, Question, Target};
use crate::cli::errand::Errand;
use crate::clock;
use crate::commands::context::Context;
use crate::diagnostics::chain;
use crate::jobs::{Header, JobError, Journal, SCHEMA, Shaping, Store, new_id};

/// A request that may be kept.
#[derive(Debug)]
pub struct Kept<'a> {
    /// What is asked, and how.
    pub question: &'a Question<'a>,
    /// Of whom.
    pub nodes: &'a BTreeSet<Identity>,
    /// In which collective.
    pub collective: &'a Name,
    /// How the nodes were chosen.
    pub target: &'a Target,
    /// The job that it follows from.
    pub past: Option<&'a Past>,
}

/// The journal of the request: of its own, or of the job that goes on. What changes nothing is kept only by name. A journal that
/// nobody has asked for and that cannot be written holds up nothing.
pub fn keep(
    kept: &Kept<'_>,
    errand: &Errand,
    cx: Context<'_>,
) -> Result<Option<Journal>, AskError> {
    let resumed = kept.past.filter(|past| past.resumes);
    let asked_for = errand.job.is_some() || kept.past.is_some();
    let nothing = kept.nodes.is_empty() || (kept.question.plan.action.read_only() && !asked_for);
    if nothing {
        return Ok(None);
    }
    let begun = Store::new(cx.environment.state_home.as_deref()).and_then(|store| match resumed {
        Some(past) => Ok(store.resume(&past.job.header.id, clock::now())?.1),
        None => store.begin(header(kept, errand)),
    });
    match begun {
        Ok(journal) => Ok(Some(journal)),
        Err(error) if asked_for => Err(error.into()),
        Err(error) => {
            tell(&error, cx);
            Ok(None)
        }
    }
}

fn tell(error: &JobError, cx: Context<'_>) {
    let why = chain(error);
    cx.printer.warn(format_args!(
        "this request is not kept as a job, and cannot be resumed or retried: {why}"
    ));
}

fn header(kept: &Kept<'_>, errand: &Errand) -> Header {
    let Plan { ddl, action, data } = kept.question.plan;
    let sensitive = data.keys().filter(|name| action.is_sensitive(name));
    let (inputs, digested) = digest_contents(&action.redact(data));
    let started = clock::now();
    let rollout = kept.question.rollout;
    Header {
        schema: SCHEMA.to_owned(),
        id: new_id(started),
        name: errand.job.clone(),
        started,
        collective: kept.collective.clone(),
        agent: ddl.name().to_owned(),
        action: action.name().to_owned(),
        read_only: action.read_only(),
        inputs,
        digested,
        sensitive: sensitive.cloned().collect(),
        target: kept.target.filter.explain(),
        nodes: kept.nodes.clone(),
        shaping: Shaping {
            canary: u32::try_from(rollout.canary).unwrap_or(u32::MAX),
            batch: rollout.batch.map(|amount| amount.to_string()),
            max_failures: rollout.max_failures.map(|amount| amount.to_string()),
            pause_ms: millis(kept.question.pause),
            timeout_ms: kept.question.timeout.map(millis),
            ttl_ms: millis(kept.question.ttl),
        },
        retry_of: kept.past.map(|past| past.job.header.id.clone()),
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
