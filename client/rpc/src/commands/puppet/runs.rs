//! `rpc puppet runonce` and `runall`: finds the nodes, keeps the job, lets them run, and tells how that went.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use muster_client::Rollout;
use muster_client::runs::{Mission, Order, Outcome, Shape};
use muster_wire::identity::{Identity, Name};
use uuid::Uuid;

use super::AGENT;
use super::output::{Form, Output};
use super::past::{Rest, rest};
use crate::ask::{
    AskError, First, Fleet, Found, Occasion, Plan, Progress, Question, Recorder, Schemas, Target,
    agreed, is_terminal,
};
use crate::cli::errand::Errand;
use crate::cli::filters::Filters;
use crate::cli::puppet::{Options, Runall, Runonce};
use crate::clock;
use crate::commands::context::Context;
use crate::commands::inquiry;
use crate::commands::request::keep::{Kept, keep};
use crate::commands::request::nobody_found;
use crate::error::Error;
use crate::exit::Exit;
use crate::jobs::{Entry, Journal, Store};
use crate::render::plan::{counted, some};
use crate::render::puppet::status::states;
use crate::runs::{Ended, Runs};
use crate::settings::Settings;

/// What is wanted, by either command.
struct Wish<'a> {
    limit: Option<u32>,
    options: &'a Options,
    filters: &'a Filters,
    yes: bool,
    job: Option<&'a Name>,
    order: Sorting,
    rollout: Rollout,
    /// Only where Puppet is enabled; everybody is asked for that first.
    enabled_only: bool,
}

/// In which order nodes have their turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sorting {
    Name,
    Random,
    Longest,
}

/// The nodes that are to run, and what is known before they do.
struct Ready {
    nodes: BTreeSet<Identity>,
    runs: Runs,
}

/// Runs Puppet once on all nodes that match.
pub async fn once(args: &Runonce, cx: Context<'_>) -> Result<Exit, Error> {
    let wish = Wish {
        limit: args.concurrency,
        options: &args.options,
        filters: &args.filters,
        yes: args.yes,
        job: args.job.as_ref(),
        order: Sorting::Name,
        rollout: Rollout::default(),
        enabled_only: false,
    };
    let form = Form::of(&args.form)?;
    let (form, logs) = (&form, false);
    let output = Output { form, logs, cx };
    told(&output, round(&wish, output).await.map(|runs| runs.exit()))
}

/// Runs Puppet on all nodes that match, so many at once; again and again, if that is wanted.
pub async fn all(args: &Runall, cx: Context<'_>) -> Result<Exit, Error> {
    let form = Form::of(&args.form)?;
    let (form, logs) = (&form, true);
    let output = Output { form, logs, cx };
    let ended = match &args.resume {
        Some(job) => resume(job, args, output).await,
        None => rounds(args, output).await,
    };
    told(&output, ended)
}

fn told(output: &Output<'_>, ended: Result<Exit, Error>) -> Result<Exit, Error> {
    if let Err(error) = &ended {
        output.complain(error)?;
    }
    ended
}

async fn rounds(args: &Runall, output: Output<'_>) -> Result<Exit, Error> {
    let wish = Wish {
        limit: args.limit,
        options: &args.options,
        filters: &args.filters,
        yes: args.yes,
        job: args.job.as_ref(),
        order: match (args.random, args.longest_first) {
            (true, _) => Sorting::Random,
            (_, true) => Sorting::Longest,
            _ => Sorting::Name,
        },
        rollout: Rollout {
            canary: args.canary.map_or(0, index),
            batch: args.batch,
            max_failures: args.max_failures,
        },
        enabled_only: true,
    };
    loop {
        let begun = Instant::now();
        let runs = round(&wish, output).await?;
        let Some(least) = args.rerun.filter(|_| runs.halt.is_none()) else {
            return Ok(runs.exit());
        };
        let pause = least.saturating_sub(begun.elapsed());
        output.say(&format!(
            "All have run; beginning anew in {} s",
            pause.as_secs()
        ));
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = tokio::signal::ctrl_c() => return Ok(runs.exit()),
        }
    }
}

/// Finds nodes and lets them run.
async fn round(wish: &Wish<'_>, output: Output<'_>) -> Result<Runs, Error> {
    let cx = output.cx;
    let target = cx.target(wish.filters)?.with_agent(AGENT)?;
    let settings = cx.settings_if_any()?;
    let schemas = cx.schemas(settings.as_ref())?;
    let mut inputs = wish.options.inputs();
    inputs.extend(
        wish.limit
            .map(|limit| ("limit".to_owned(), limit.to_string())),
    );
    let plan = inquiry::plan_of(&schemas, (AGENT, "runonce"), inputs)?;
    let settings = settings.map_or_else(|| cx.settings(), Ok)?;
    let source = target.source(Some(&settings))?;
    target.check_filtered(&source, plan.action, &settings)?;

    let fleet = Fleet::connect(&settings, &target).await?;
    if let Some(limit) = wish.limit {
        output.say(&format!(
            "Running all machines with a concurrency of {limit}"
        ));
    }
    output.say("Discovering hosts to run");
    let progress = Progress::new(cx.printer, matches!(output.form, Form::Text));
    let found = fleet.discover(&target, &progress).await?;
    cx.remember(&found.nodes);
    let started = clock::now();
    let runs = Runs {
        limit: wish.limit.map(index),
        started,
        ..Runs::default()
    };
    let is_nobody = found.nodes.is_empty();
    let ready = if wish.enabled_only && !is_nobody {
        enabled(&fleet, &schemas, found, runs, &progress).await?
    } else {
        let nodes = found.nodes;
        Ready { nodes, runs }
    };
    let Ready { nodes, mut runs } = ready;
    let order = order(wish.order, &fleet, &schemas, &nodes, &progress).await?;
    output.found(order.iter().collect(), &runs)?;
    if nodes.is_empty() {
        if is_nobody {
            nobody_found(&target, cx);
        } else {
            cx.printer
                .error("nobody may run: Puppet is disabled on all nodes, or they do not answer");
        }
        output.end(&runs)?;
        return Ok(runs);
    }
    confirm(wish, &nodes, &settings, cx).await?;

    let order: Vec<(Identity, Uuid)> = order
        .into_iter()
        .map(|node| (node, Uuid::now_v7()))
        .collect();
    let question = Question {
        timeout: wish.options.timeout,
        rollout: wish.rollout,
        ..Question::new(&plan)
    };
    let kept = Kept {
        question: &question,
        nodes: &nodes,
        collective: fleet.collective(),
        target: &target,
        past: None,
    };
    let journal = journal(&kept, wish.job, &order, cx)?;
    runs.job = journal.as_ref().map(|journal| journal.id().to_owned());
    let mission = Mission {
        shape: Shape {
            limit: runs.limit.unwrap_or(nodes.len()),
            batch: wish.rollout.batch,
            canary: wish.rollout.canary,
            max_failures: wish.rollout.max_failures,
        },
        runs: order,
        data: plan.data.clone(),
        silence: wish.options.deadline,
        timeout: wish.options.timeout,
        wait: wait(&plan, wish.options.timeout) + fleet.patience(),
        ttl: question.ttl,
    };
    carry_out(&fleet, mission, &plan, (runs, journal), output).await
}

/// Goes on with a job: those who have not answered are asked for the runs that they were to make.
async fn resume(reference: &str, args: &Runall, output: Output<'_>) -> Result<Exit, Error> {
    let cx = output.cx;
    let store = Store::new(cx.environment.state_home.as_deref()).map_err(AskError::from)?;
    let settings = cx.settings()?;
    let schemas = cx.schemas(Some(&settings))?;
    let plan = inquiry::plan_of(&schemas, (AGENT, "runonce"), Vec::new())?;
    let (silence, timeout) = (args.options.deadline, args.options.timeout);
    // Whether it can be gone on with is found before anything is written into it.
    let job = store.load(reference).map_err(AskError::from)?;
    rest(&job, silence, Duration::ZERO).map_err(AskError::from)?;
    let target = Target::of_collective(Some(job.header.collective.clone()));
    let fleet = Fleet::connect(&settings, &target).await?;
    let resumed = store.resume(&job.header.id, clock::now());
    let (job, journal) = resumed.map_err(AskError::from)?;
    let wait = wait(&plan, timeout) + fleet.patience();
    let Rest { mut mission, runs } = rest(&job, silence, wait).map_err(AskError::from)?;
    mission.timeout = timeout.or(mission.timeout);
    output.say(&format!(
        "Going on with job {}: {} to run, {} have run",
        job.header.id,
        mission.runs.len(),
        runs.ended.len()
    ));
    if let Some(limit) = runs.limit {
        output.say(&format!(
            "Running all machines with a concurrency of {limit}"
        ));
    }
    let order = mission.runs.iter().map(|(node, _)| node).collect();
    output.found(order, &runs)?;
    let runs = carry_out(&fleet, mission, &plan, (runs, Some(journal)), output).await?;
    Ok(runs.exit())
}

async fn carry_out(
    fleet: &Fleet,
    mission: Mission,
    plan: &Plan<'_>,
    (runs, journal): (Runs, Option<Journal>),
    output: Output<'_>,
) -> Result<Runs, Error> {
    let mut recorder = Recorder::new(journal, output.cx.printer);
    let ran = fleet.run_all(mission, plan.action, (runs, &mut recorder), |news| {
        output.news(news)
    });
    let runs = ran.await?;
    output.end(&runs)?;
    Ok(runs)
}

/// Those of the nodes where Puppet is enabled. Whoever does not tell is not asked to run, and is told as silent.
async fn enabled(
    fleet: &Fleet,
    schemas: &Schemas,
    found: Found,
    mut runs: Runs,
    progress: &Progress<'_>,
) -> Result<Ready, Error> {
    let plan = inquiry::plan_of(schemas, (AGENT, "status"), Vec::new())?;
    let report = inquiry::ask(fleet, &plan, found, progress).await?;
    let mut nodes = BTreeSet::new();
    for state in states(&report) {
        match state.disabled() {
            None => drop(nodes.insert(state.node().clone())),
            Some(message) => drop(runs.disabled.insert(state.node().clone(), message)),
        }
    }
    for node in &report.stats.missing {
        let absent = report.stats.not_connected.contains(node);
        let outcome = Outcome::silent(absent);
        runs.ended.insert(node.clone(), ended(outcome));
    }
    for reply in report.replies.iter().filter(|reply| !reply.is_ok()) {
        let told = Outcome::told(
            reply.status,
            reply.reason.as_ref(),
            &reply.message,
            reply.data.clone(),
        );
        runs.ended.insert(reply.node.clone(), ended(told));
    }
    Ok(Ready { nodes, runs })
}

fn ended(outcome: Outcome) -> Ended {
    Ended {
        run: Uuid::nil(),
        outcome,
        earlier: false,
    }
}

/// The nodes in their order.
async fn order(
    sorting: Sorting,
    fleet: &Fleet,
    schemas: &Schemas,
    nodes: &BTreeSet<Identity>,
    progress: &Progress<'_>,
) -> Result<Vec<Identity>, Error> {
    let order = match sorting {
        Sorting::Name => Order::Name,
        Sorting::Random => {
            let (_, lot) = Uuid::now_v7().as_u64_pair();
            Order::Random(lot)
        }
        Sorting::Longest => {
            let plan = inquiry::plan_of(schemas, (AGENT, "last_run_summary"), Vec::new())?;
            let found = Found::named(nodes.clone());
            let report = inquiry::ask(fleet, &plan, found, progress).await?;
            let took = |data: &serde_json::Map<String, serde_json::Value>| {
                let seconds = data.get("total_time")?.as_f64()?;
                Duration::try_from_secs_f64(seconds).ok()
            };
            let times = report.replies.iter();
            let times = times.filter_map(|reply| Some((reply.node.clone(), took(&reply.data)?)));
            Order::Longest(times.collect::<BTreeMap<_, _>>())
        }
    };
    Ok(order.arrange(nodes))
}

/// Asks whether so many shall run, where that is wanted.
async fn confirm(
    wish: &Wish<'_>,
    nodes: &BTreeSet<Identity>,
    settings: &Settings,
    cx: Context<'_>,
) -> Result<(), AskError> {
    let occasion = Occasion {
        read_only: false,
        nodes: nodes.len(),
        yes: wish.yes,
        terminal: is_terminal(),
    };
    match settings.confirm.first(settings.confirm_above, occasion) {
        First::Go => Ok(()),
        First::Refuse => Err(AskError::Unconfirmed),
        First::Ask => {
            let at_once = wish.limit.map_or("all at once".to_owned(), |limit| {
                format!("{limit} at a time")
            });
            let (all, names) = (counted(nodes.len()), some(nodes));
            let text = format!("Plan: puppet runs on {all}, {at_once}: {names}\nGo on? [y/N]");
            let yes = agreed(&text, cx.printer).await?;
            yes.then_some(()).ok_or(AskError::Declined)
        }
    }
}

/// The job's journal, with the identity of each node's run in it before anybody is asked.
fn journal(
    kept: &Kept<'_>,
    name: Option<&Name>,
    order: &[(Identity, Uuid)],
    cx: Context<'_>,
) -> Result<Option<Journal>, AskError> {
    let errand = Errand {
        job: name.cloned(),
        ..Errand::default()
    };
    let Some(mut journal) = keep(kept, &errand, cx)? else {
        return Ok(None);
    };
    journal.add(&Entry::Runs {
        runs: order.to_vec(),
    })?;
    journal.sync()?;
    Ok(Some(journal))
}

/// How long a run may take, its waiting among it.
fn wait(plan: &Plan<'_>, timeout: Option<Duration>) -> Duration {
    timeout.unwrap_or(plan.ddl.timeout_of(plan.action))
}

fn index(count: u32) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}
