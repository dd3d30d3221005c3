//! The actions of `shell`, one module each.

mod kill;
mod list;
mod run;
mod start;
mod status;
mod tail;

pub(crate) use kill::ShellKillAction;
pub(crate) use list::ShellListAction;
pub(crate) use run::ShellRunAction;
pub(crate) use start::ShellStartAction;
pub(crate) use status::ShellStatusAction;
pub(crate) use tail::ShellTailAction;

use muster_api::system::System;
use muster_api::system::command::OutputStream;
use serde::{Deserialize, Serialize};

use crate::jobs::{ShellJobRecord, ShellJobState, ShellJobStore};

/// The input of an action on one job.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ShellJobInput {
    job: String,
}

/// A job, as callers see it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct ShellJobView {
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

impl ShellJobView {
    /// Builds the row of a job from its record and current state. Blocks.
    fn from_record(jobs: &ShellJobStore, record: ShellJobRecord, system: &dyn System) -> Self {
        let (state, exitcode, signal) = match jobs.job_state(&record, system) {
            ShellJobState::Running => ("running", None, None),
            // Shell convention: 128 + signal. A program can also exit with such a code itself.
            ShellJobState::Exited(code) if code > 128 => ("exited", Some(code), Some(code - 128)),
            ShellJobState::Exited(code) => ("exited", Some(code), None),
            ShellJobState::Killed(signal) => ("killed", None, Some(signal)),
            ShellJobState::Lost => ("lost", None, None),
        };
        Self {
            state: state.to_owned(),
            exitcode,
            signal,
            stdout_bytes: jobs.stream_size(&record, OutputStream::Stdout),
            stderr_bytes: jobs.stream_size(&record, OutputStream::Stderr),
            job: record.job,
            command: record.command,
            user: record.user,
            caller: record.caller,
            started: record.started,
        }
    }
}
