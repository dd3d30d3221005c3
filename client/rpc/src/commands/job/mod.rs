//! `rpc job`: shows and manages saved jobs, and requests that the history of the fleet has. Only `undo` changes nodes.

pub mod args;
pub mod errors;
pub mod output;
mod past_request;
mod undo;

use muster_base::error_chain;
use muster_client::jobs::{JobStore, SavedJobError};
use muster_display::count_text;
use muster_display::printer::highlight_code;

use crate::commands::job::args::{JobCommand, JobDiffArgs, JobForgetArgs, JobShowArgs};
use crate::commands::job::output::{
    JobDifference, JobDocument, JobListDocument, render_job, render_job_list,
};
use crate::flags::json::JsonArgs;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult};

pub async fn run(command: JobCommand, cx: CommandContext<'_>) -> CommandResult {
    let store = JobStore::new(cx.environment.state_home.as_deref())?;
    match command {
        JobCommand::List(args) => list_jobs(&args, &store, cx),
        JobCommand::Show(args) => show_job(&args, &store, cx).await,
        JobCommand::Diff(args) => diff_jobs(&args, &store, cx),
        JobCommand::Undo(args) => Box::pin(undo::run(*args, &store, cx)).await,
        JobCommand::Forget(args) => forget_jobs(&args, &store, cx),
    }
}

fn list_jobs(args: &JsonArgs, store: &JobStore, cx: CommandContext<'_>) -> CommandResult {
    let (jobs, errors) = store.list_jobs()?;
    if let Some(json) = args.form()? {
        cx.print_json(&JobListDocument::new(&jobs), &json)?;
    } else {
        cx.printer.print_text(render_job_list(&jobs, cx.table_width()))?;
        if jobs.is_empty() {
            cx.printer.print_message(format_args!(
                "no saved jobs; requests that may change nodes are saved, and requests with {}",
                highlight_code("--job")
            ));
        }
    }
    for error in errors {
        cx.printer.print_warning(error_chain(&error));
    }
    Ok(CommandExitCode::Passed)
}

async fn show_job(args: &JobShowArgs, store: &JobStore, cx: CommandContext<'_>) -> CommandResult {
    let job = match store.load_job(&args.job) {
        Err(SavedJobError::Unknown(id)) if past_request::may_be_request(&id) => {
            return past_request::show(args, cx).await;
        }
        job => job?,
    };
    let json = args.json.form()?;
    cx.print_result(json.as_ref(), &JobDocument::new(&job), || render_job(&job, cx.width()))?;
    if job.damaged > 0 {
        let damaged = count_text(job.damaged, "line", "lines");
        cx.printer.print_warning(format_args!("{damaged} of the job's file cannot be parsed"));
    }
    Ok(job.outcome().into())
}

fn diff_jobs(args: &JobDiffArgs, store: &JobStore, cx: CommandContext<'_>) -> CommandResult {
    let (before, after) = (store.load_job(&args.before)?, store.load_job(&args.after)?);
    let difference = JobDifference::between_jobs(&before, &after);
    let json = args.json.form()?;
    cx.print_result(json.as_ref(), &difference, || difference.render_text(cx.width()))?;
    Ok(CommandExitCode::from_verdict(difference.is_empty()))
}

fn forget_jobs(args: &JobForgetArgs, store: &JobStore, cx: CommandContext<'_>) -> CommandResult {
    let forgotten = if args.all {
        store.forget_all_jobs()?
    } else {
        args.jobs.iter().map(|job| store.forget_job(job)).collect::<Result<_, _>>()?
    };
    for id in forgotten {
        cx.printer.print_message(format_args!("forgot {id}"));
    }
    Ok(CommandExitCode::Passed)
}
