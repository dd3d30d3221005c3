//! One file for each action.

mod kill;
mod list;
mod run;
mod start;
mod status;
mod tail;

pub(crate) use kill::Kill;
pub(crate) use list::List;
pub(crate) use run::Run;
pub(crate) use start::Start;
pub(crate) use status::Status;
pub(crate) use tail::Tail;

use muster_api::system::System;
use muster_api::system::command::Stream;
use serde::{Deserialize, Serialize};

use crate::jobs::{Jobs, Record, State};

/// The input of an action on one job.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Job {
    job: String,
}

/// A job, as callers see it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct View {
    job: String,
    state: String,
    exitcode: Option<i32>,
    signal: Option<i32>,
    command: Vec<String>,
    user: Option<String>,
    caller: String,
    started: u64,
    stdout_bytes: u64,
    stderr_bytes: u64,
}

impl View {
    /// Looks at a job. Blocks.
    fn of(jobs: &Jobs, record: Record, system: &dyn System) -> Self {
        let (state, exitcode, signal) = match jobs.state(&record, system) {
            State::Running => ("running", None, None),
            // As shells say it; a program may also choose such a code itself.
            State::Exited(code) if code > 128 => ("exited", Some(code), Some(code - 128)),
            State::Exited(code) => ("exited", Some(code), None),
            State::Killed(signal) => ("killed", None, Some(signal)),
            State::Lost => ("lost", None, None),
        };
        Self {
            state: state.to_owned(),
            exitcode,
            signal,
            stdout_bytes: jobs.size(&record, Stream::Stdout),
            stderr_bytes: jobs.size(&record, Stream::Stderr),
            job: record.job,
            command: record.command,
            user: record.user,
            caller: record.caller,
            started: record.started,
        }
    }
}
