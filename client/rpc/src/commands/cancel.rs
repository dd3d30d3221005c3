//! `rpc cancel ID`: takes a request, or all requests of a job, back on the nodes that still work on it.

use std::collections::BTreeSet;

use muster_ddl::aggregate::Summarizer;
use muster_wire::identity::Identity;
use serde_json::Value;
use uuid::Uuid;

use super::context::Context;
use super::request::nobody_found;
use super::{form, inquiry};
use crate::ask::{AskError, Fleet, Found, Progress, Schemas, Target};
use crate::cli::cancel::Cancel;
use crate::cli::filters::Filters;
use crate::diagnostics::chain;
use crate::error::Error;
use crate::exit::Exit;
use crate::jobs::{Job, JobError, State, Store, Wave};
use crate::printer::{BAD, GOOD, Talk};
use crate::render::json::Request as Document;
use crate::render::plan::counted;
use crate::render::printable::line;
use crate::report::{Gap, Reply, Report};

/// What is taken back.
enum Meant {
    /// This request, wherever it is found.
    Request(Uuid),
    /// Whatever the job has asked.
    Job(Box<Job>),
}

/// One request that nodes are asked to give up; without nodes those of the target are.
struct Errand {
    request: String,
    nodes: Option<BTreeSet<Identity>>,
}

/// Runs the command.
pub async fn run(args: Cancel, cx: Context<'_>) -> Result<Exit, Error> {
    let json = form::json(&args.json)?;
    let meant = meant(&args, cx)?;
    let target = match &meant {
        Meant::Request(_) => cx.target(&args.filters)?.with_agent(inquiry::AGENT)?,
        Meant::Job(job) => Target::of_collective(Some(job.header.collective.clone())),
    };
    let settings = cx.settings()?;
    let schemas = Schemas::load(Some(&settings))?;
    let action = if args.any { "cancel_any" } else { "cancel" };
    let errands = errands(&meant, cx);
    let is_over = errands.is_empty();
    let mut report = Report::nothing(inquiry::AGENT, action);
    if !is_over {
        let fleet = Fleet::connect(&settings, &target).await?;
        let progress = Progress::new(cx.printer, json.is_none());
        report = ask(
            errands,
            (&schemas, action),
            (&fleet, &target),
            &progress,
            report,
        )
        .await?;
    }
    if let Some(json) = &json {
        cx.json(&Document::new(&report), json)?;
    } else if is_over {
        cx.printer.say("Nothing is left to take back");
    } else if report.stats.discovered == 0 {
        nobody_found(&target, cx);
    } else {
        show(&report, cx)?;
    }
    cx.warn_of_gaps(&report);
    let nowhere = report.stats.exit() == Exit::Passed && cancelled(&report) == 0;
    Ok(if nowhere {
        Exit::Local
    } else {
        report.stats.exit()
    })
}

/// Asks for one request after the other, until the user wants no more. What came of all of them is one report.
async fn ask(
    errands: Vec<Errand>,
    (schemas, action): (&Schemas, &str),
    (fleet, target): (&Fleet, &Target),
    progress: &Progress<'_>,
    mut report: Report,
) -> Result<Report, Error> {
    let mut summarizer = None;
    for Errand { request, nodes } in errands {
        let plan = inquiry::plan(schemas, action, &[("id", &request)])?;
        summarizer.get_or_insert_with(|| Summarizer::new(plan.action));
        let found = match nodes {
            Some(nodes) => Found::named(nodes),
            None => fleet.discover(target, progress).await?,
        };
        report = report.join(inquiry::ask(fleet, &plan, found, progress).await?);
        if report.stats.gaps.contains(&Gap::Interrupted) {
            break;
        }
    }
    if let Some(mut summarizer) = summarizer {
        for reply in report.replies.iter().filter(|reply| reply.is_ok()) {
            summarizer.add(&reply.data);
        }
        report.summaries = summarizer.finish();
    }
    Ok(report)
}

/// The job or the request that is named. Filters say where to look for a request, whatever is kept of it.
fn meant(args: &Cancel, cx: Context<'_>) -> Result<Meant, AskError> {
    let filtered = args.filters != Filters::default();
    let store = Store::new(cx.environment.state_home.as_deref());
    let Ok(id) = Uuid::parse_str(&args.id) else {
        let job = store?.load(&args.id)?;
        if filtered {
            return Err(JobError::Filtered(job.header.id).into());
        }
        return Ok(Meant::Job(Box::new(job)));
    };
    if filtered {
        return Ok(Meant::Request(id));
    }
    match store.and_then(|store| store.of_request(&id.to_string())) {
        Ok(Some(job)) => Ok(Meant::Job(Box::new(job))),
        Ok(None) | Err(JobError::Homeless) => Ok(Meant::Request(id)),
        Err(error) => {
            let why = chain(&error);
            cx.printer.warn(format_args!(
                "all nodes are asked, for jobs cannot be read: {why}"
            ));
            Ok(Meant::Request(id))
        }
    }
}

/// Who is asked to give up what. Says what stays at work all the same.
fn errands(meant: &Meant, cx: Context<'_>) -> Vec<Errand> {
    let job = match meant {
        Meant::Request(id) => {
            return vec![Errand {
                request: id.to_string(),
                nodes: None,
            }];
        }
        Meant::Job(job) => job,
    };
    let id = &job.header.id;
    cx.printer.detail(format_args!("job {id}"));
    let next = job.never_asked().len();
    if job.state() == State::Running && next > 0 {
        let next = counted(next);
        cx.printer.warn(format_args!(
            "an `rpc` is still at the job {id}, and will ask {next} more; Ctrl-C there ends that"
        ));
    }
    let errand = |Wave { request, nodes }: Wave| {
        if request.is_none() {
            let nodes = counted(nodes.len());
            cx.printer.warn(format_args!(
                "{nodes} may have been asked by a request whose id is not known; `rpc do rpcutil running` tells"
            ));
        }
        Some(Errand {
            request: request?,
            nodes: Some(nodes),
        })
    };
    job.open_waves().into_iter().filter_map(errand).collect()
}

/// The nodes where something happened; with details, the others too.
fn show(report: &Report, cx: Context<'_>) -> Result<(), Error> {
    let mut replies: Vec<&Reply> = report.replies.iter().collect();
    replies.sort_by(|a, b| a.node.cmp(&b.node));
    for reply in replies {
        let text = |key: &str| reply.data.get(key).and_then(Value::as_str).map(line);
        let node = &reply.node;
        if !reply.is_ok() {
            let why = line(&reply.message);
            cx.printer.line(format_args!("{node}: {BAD}{why}{BAD:#}"))?;
        } else if let (Some(agent), Some(action), Some(caller)) =
            (text("agent"), text("action"), text("caller"))
        {
            cx.printer.line(format_args!(
                "{node}: {GOOD}cancelled{GOOD:#} {agent} {action} of {caller}"
            ))?;
        } else if cx.printer.talk() == Talk::Verbose {
            cx.printer.line(format_args!("{node}: not at work there"))?;
        }
    }
    let silent: Vec<&str> = report.stats.missing.iter().map(AsRef::as_ref).collect();
    if !silent.is_empty() {
        cx.printer
            .warn(format_args!("no answer from {}", silent.join(", ")));
    }
    let (count, asked) = (cancelled(report), report.stats.discovered);
    cx.printer
        .say(format_args!("Cancelled on {count} of {asked} nodes"));
    Ok(())
}

fn cancelled(report: &Report) -> usize {
    let outcome = |reply: &&Reply| reply.data.get("outcome") == Some(&Value::from("cancelled"));
    report.replies.iter().filter(outcome).count()
}
