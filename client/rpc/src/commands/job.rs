//! `rpc job`: what is kept of earlier requests. Asks nobody.

use super::context::Context;
use super::form;
use crate::ask::AskError;
use crate::cli::job::{Diff, Forget, Job, List, Show};
use crate::diagnostics::{chain, code};
use crate::error::Error;
use crate::exit::Exit;
use crate::jobs::{JobError, Store};
use crate::render::job::{DiffDocument, Difference, JobDocument, ListDocument, list, show};

/// Runs one of the commands.
pub fn run(command: Job, cx: Context<'_>) -> Result<Exit, Error> {
    let store = Store::new(cx.environment.state_home.as_deref()).map_err(AskError::from)?;
    match command {
        Job::List(args) => all(&args, &store, cx),
        Job::Show(args) => one(&args, &store, cx),
        Job::Diff(args) => diff(&args, &store, cx),
        Job::Forget(args) => forget(&args, &store, cx),
    }
}

fn all(args: &List, store: &Store, cx: Context<'_>) -> Result<Exit, Error> {
    let (jobs, odd) = store.list().map_err(AskError::from)?;
    if let Some(json) = form::json(&args.json)? {
        cx.json(&ListDocument::new(&jobs), &json)?;
    } else {
        cx.printer.text(list(&jobs))?;
        if jobs.is_empty() {
            cx.printer.say(format_args!(
                "no job is kept; what changes nodes is one, and so is what {} names",
                code("--job")
            ));
        }
    }
    for error in odd {
        cx.printer.warn(chain(&error));
    }
    Ok(Exit::Passed)
}

fn one(args: &Show, store: &Store, cx: Context<'_>) -> Result<Exit, Error> {
    let job = store.load(&args.job).map_err(AskError::from)?;
    if let Some(json) = form::json(&args.json)? {
        cx.json(&JobDocument::new(&job), &json)?;
    } else {
        cx.printer.text(show(&job, cx.printer.screen().width))?;
    }
    if job.damaged > 0 {
        let damaged = job.damaged;
        cx.printer.warn(format_args!(
            "{damaged} lines of the job's file cannot be read"
        ));
    }
    Ok(job.exit())
}

fn diff(args: &Diff, store: &Store, cx: Context<'_>) -> Result<Exit, Error> {
    let load = |reference: &str| store.load(reference).map_err(AskError::from);
    let (before, after) = (load(&args.before)?, load(&args.after)?);
    let difference = Difference::between(&before, &after);
    if let Some(json) = form::json(&args.json)? {
        cx.json(&DiffDocument::new(&difference), &json)?;
    } else {
        cx.printer
            .text(difference.text(cx.printer.screen().width))?;
    }
    Ok(if difference.is_none() {
        Exit::Passed
    } else {
        Exit::SomeFailed
    })
}

fn forget(args: &Forget, store: &Store, cx: Context<'_>) -> Result<Exit, Error> {
    let forgotten = if args.all {
        store.forget_all().map_err(AskError::from)?
    } else {
        let one = |job: &String| store.forget(job);
        let all = args
            .jobs
            .iter()
            .map(one)
            .collect::<Result<Vec<_>, JobError>>();
        all.map_err(AskError::from)?
    };
    for id in forgotten {
        cx.printer.say(format_args!("forgot {id}"));
    }
    Ok(Exit::Passed)
}
