//! `start`, `status`, `list` and `kill`: jobs, which outlive the call and the daemon.

use std::sync::Arc;
use std::time::Duration;

use muster_api::base::signal_of_exit_code;
use muster_api::system::System;
use muster_api::system::command::OutputStream;
use muster_api::{ActionError, BlockingContext, EmptyInput};
use muster_contract::shell::{
    ShellJobInput, ShellJobView, ShellKillInput, ShellKillOutput, ShellListOutput,
    ShellProgramInput, ShellStartOutput,
};

use crate::shell::jobs::{ShellJobRecord, ShellJobState, ShellJobStore};
use crate::shell::program::{build_command, list_arguments};

/// Builds the row of a job from its record and current state. Blocks.
fn view_job(jobs: &ShellJobStore, record: ShellJobRecord, system: &dyn System) -> ShellJobView {
    let (state, exitcode, signal) = match jobs.job_state(&record, system) {
        ShellJobState::Running => ("running", None, None),
        // Shell convention: 128 + signal. A program can also exit with such a code itself.
        ShellJobState::Exited(code) => ("exited", Some(code), signal_of_exit_code(code)),
        ShellJobState::Killed(signal) => ("killed", None, Some(signal)),
        ShellJobState::Lost => ("lost", None, None),
    };
    ShellJobView {
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

/// Starts a program as a job.
pub(crate) fn start_job(
    jobs: &Arc<ShellJobStore>,
    cx: &BlockingContext,
    input: ShellProgramInput,
) -> Result<ShellStartOutput, ActionError> {
    let command = build_command(&input, &*cx.system)?;
    let record = jobs.start_job(cx, &command, list_arguments(&input), input.user)?;
    Ok(ShellStartOutput { job: record.job })
}

pub(crate) fn query_job(
    jobs: &Arc<ShellJobStore>,
    cx: &BlockingContext,
    ShellJobInput { job }: ShellJobInput,
) -> Result<ShellJobView, ActionError> {
    Ok(view_job(jobs, jobs.get_for_caller(&job, &cx.owner())?, &*cx.system))
}

/// Lists the recorded jobs, oldest first.
pub(crate) fn list_jobs(
    jobs: &Arc<ShellJobStore>,
    cx: &BlockingContext,
    _: EmptyInput,
) -> Result<ShellListOutput, ActionError> {
    let records = jobs.list_for_caller(&cx.owner())?.into_iter();
    let views: Vec<ShellJobView> =
        records.map(|record| view_job(jobs, record, &*cx.system)).collect();
    Ok(ShellListOutput {
        running: views.iter().filter(|view| view.state == "running").count(),
        jobs: views,
    })
}

/// Ends a job and every process in its process group.
pub(crate) fn kill_job(
    jobs: &Arc<ShellJobStore>,
    cx: &BlockingContext,
    ShellKillInput { job, grace }: ShellKillInput,
) -> Result<ShellKillOutput, ActionError> {
    let record = jobs.get_for_caller(&job, &cx.owner())?;
    let ended = jobs.kill_job(&record, &*cx.system, Duration::from_secs(grace.min(60)))?;
    let view = view_job(jobs, record, &*cx.system);
    Ok(ShellKillOutput { ended, state: view.state, exitcode: view.exitcode, signal: view.signal })
}
