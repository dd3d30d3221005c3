//! `rpc do AGENT ACTION`, `rpc AGENT ACTION`: asks an action of all nodes that match, and shows what they answer.

pub mod keep;
pub mod output;
mod past;
mod propose;

use std::collections::BTreeSet;

use muster_client::{Answers, Source, choose};
use muster_ddl::Action;
use muster_wire::identity::Identity;
use muster_wire::trace::Traceparent;
use uuid::Uuid;

use super::context::Context;
use super::form;
use crate::approval::{ApprovingError, Given, given};
use crate::ask::{
    AskError, First, Fleet, Found, Occasion, Plan, Progress, Question, Recorder, Schemas, Target,
    Words, agreed, is_terminal, read_secrets,
};
use crate::cli::Cli;
use crate::cli::request::Request;
use crate::environment::Environment;
use crate::error::Error;
use crate::exit::Exit;
use crate::printer::Talk;
use crate::render::agent_help;
use crate::render::plan::{Rolling, counted};
use crate::render::request::View;
use crate::render::trace::Way;
use crate::reply_filter::ReplyFilter;
use crate::report::Report;
use crate::settings::Settings;
use keep::{Kept, keep};
use output::{Form, Output, complain, divert};
use past::Past;
use propose::{Proposing, propose};

/// Runs the command. Replies are shown as they come, unless they are sorted or go into a document.
pub async fn run(args: Request, cx: Context<'_>) -> Result<Exit, Error> {
    if args.help {
        return help(&args, cx);
    }
    if let Some(path) = &args.output.file {
        divert(path, cx)?;
    }
    let form = Form::of(&args.output)?;
    let ended = ask(args, &form, cx).await;
    if let (Form::Lines, Err(error)) = (&form, &ended) {
        complain(error, cx)?;
    }
    ended
}

/// Tells how the agent or its action is used.
fn help(args: &Request, cx: Context<'_>) -> Result<Exit, Error> {
    let mut schemas = Schemas::load(cx.settings_if_any()?.as_ref())?;
    if args.bare {
        schemas.commands = Cli::commands();
    }
    let words = Words::read(args.agent.as_deref().unwrap_or_default(), &args.words)?;
    let ddl = schemas.agent(&words.agent)?;
    let page = match words.action {
        None => agent_help::agent(ddl),
        Some(_) => agent_help::action(ddl, schemas.action(&words)?.1),
    };
    cx.printer.text(page)?;
    Ok(Exit::Passed)
}

async fn ask(args: Request, form: &Form, cx: Context<'_>) -> Result<Exit, Error> {
    let target = cx.target(&args.filters)?;
    let past = Past::of(&args.errand, cx.environment).map_err(AskError::from)?;
    let words = words(&args, past.as_ref())?;
    // A wrong command line is told before a missing configuration.
    let settings = cx.settings_if_any()?;
    let mut schemas = cx.schemas(settings.as_ref())?;
    if args.bare {
        schemas.commands = Cli::commands();
    }
    let (ddl, action) = schemas.action(&words)?;
    let filter = form::replies(args.output.filter_replies.as_deref(), action)?;
    if args.approval.approve.is_some() && !target.filter.is_empty() {
        return Err(ApprovingError::AndFilters.into());
    }
    let nodes = match &past {
        Some(past) => Some(
            past.nodes(ddl.name(), action.name())
                .map_err(AskError::from)?,
        ),
        None => None,
    };
    let mut target = target.with_agent(ddl.name())?;
    let source = target.source(settings.as_ref())?;
    check_readers(&source, &words, action)?;
    let (inputs, base) = match &past {
        Some(past) => past.inputs(&words.inputs).map_err(AskError::from)?,
        None => (words.inputs.clone(), serde_json::Map::new()),
    };
    let inputs = read_secrets(action, inputs).await?;
    let plan = Plan::over(ddl, action, base, &inputs)?;
    if let Some(past) = &past {
        target
            .collective
            .get_or_insert(past.job.header.collective.clone());
    }

    let settings = settings.map_or_else(|| cx.settings(), Ok)?;
    let given = match &args.approval.approve {
        Some(path) => Some(given(path, &plan, &settings)?),
        None => None,
    };
    let (nodes, approval) = match given {
        Some(Given { nodes, text }) => (Some(nodes), Some(text)),
        None => (nodes, None),
    };
    if nodes.is_none() {
        target.check_filtered(&source, action, &settings)?;
    }
    let fleet = Fleet::connect(&settings, &target).await?;
    let progress = Progress::new(cx.printer, !form.is_json() && !args.output.no_progress);
    let mut found = if let Some(nodes) = nodes {
        Found::named(nodes)
    } else {
        let found = fleet.discover(&target, &progress).await?;
        cx.remember(&found.nodes);
        found
    };
    if let Some(limit) = args.pace.limit() {
        found.nodes = choose(&found.nodes, limit, args.pace.limit_seed);
    }
    if let Some(path) = &args.approval.propose {
        let proposing = Proposing {
            plan: &plan,
            target: &target,
            nodes: found.nodes,
            lifetime: args.approval.lifetime,
        };
        return propose(path, proposing, &settings, cx);
    }
    let mut question = question(&args, &plan, (form, past.as_ref()), cx);
    question.approval = approval;
    confirm(&question, &found.nodes, &args, &settings, cx).await?;
    let kept = Kept {
        question: &question,
        nodes: &found.nodes,
        collective: fleet.collective(),
        target: &target,
        past: past.as_ref(),
    };
    let recorder = Recorder::new(keep(&kept, &args.errand, cx)?, cx.printer);
    let errand = Errand {
        fleet: &fleet,
        question,
        found,
        recorder,
        target: &target,
        cx,
    };
    match elsewhere(&args, errand.fleet)? {
        Some(answers) => errand.give(answers).await,
        None => errand.gather(&args, (form, filter), &progress).await,
    }
}

/// What is asked, and how, as the flags or the job that goes on say.
fn question<'a>(
    args: &Request,
    plan: &'a Plan<'a>,
    (form, past): (&Form, Option<&Past>),
    cx: Context<'_>,
) -> Question<'a> {
    let expect = args.errand.expect;
    let mut question = Question {
        plan,
        timeout: args.timeout,
        ttl: args.ttl,
        stream: form.shows_progress() && args.wants_progress(plan.action),
        rollout: args.pace.rollout(),
        pause: args.pace.batch_sleep,
        expect: expect.map(|count| usize::try_from(count).unwrap_or(usize::MAX)),
        trace: args.errand.trace,
        traceparent: traceparent(args.errand.trace, cx.environment),
        approval: None,
    };
    if let Some(past) = past {
        past.shape(&mut question, &args.pace);
    }
    question
}

/// A question that is ready to be asked.
struct Errand<'a> {
    fleet: &'a Fleet,
    question: Question<'a>,
    found: Found,
    recorder: Recorder<'a>,
    target: &'a Target,
    cx: Context<'a>,
}

impl Errand<'_> {
    /// Asks, and shows what comes.
    async fn gather(
        mut self,
        args: &Request,
        (form, filter): (&Form, Option<ReplyFilter>),
        progress: &Progress<'_>,
    ) -> Result<Exit, Error> {
        let Plan { ddl, action, .. } = self.question.plan;
        let (cx, trace) = (self.cx, self.question.trace);
        let verbose = cx.printer.talk() == Talk::Verbose;
        let output = Output {
            form,
            filter,
            sort: args.output.sort,
            view: View {
                action,
                wish: args.output.display,
                verbose,
                width: cx.printer.screen().width,
            },
            cx,
        };
        output.found(ddl.name(), action.name(), &self.found.nodes)?;
        let asked = self.fleet.ask(
            self.question,
            self.found,
            &mut self.recorder,
            progress,
            |news| output.news(news),
        );
        let mut report = asked.await?;
        if args.output.sort {
            report.replies.sort_by(|a, b| a.node.cmp(&b.node));
        }
        output.end(&report, Some(self.target))?;
        if trace && form.is_for_people() {
            cx.printer.text(Way::of(&report).text(verbose))?;
        }
        cx.warn_of_gaps(&report);
        next_steps(&report, self.recorder.id(), cx);
        Ok(report.stats.exit())
    }

    /// Sends the question, and says so.
    async fn give(mut self, answers: Answers) -> Result<Exit, Error> {
        let printer = self.cx.printer;
        if self.found.nodes.is_empty() {
            nobody_found(self.target, self.cx);
            return Ok(Exit::Local);
        }
        let count = self.found.nodes.len();
        let given = self.fleet.give(
            &self.question,
            self.found.nodes,
            answers,
            &mut self.recorder,
        );
        let (request, unasked) = given.await?;
        let asked = count.saturating_sub(unasked.len());
        if asked > 0 {
            printer.line(format_args!("Request sent with id: {request}"))?;
            printer.detail(format_args!("to {}", counted(asked)));
        }
        if unasked.is_empty() {
            return Ok(Exit::Passed);
        }
        let names: Vec<&str> = unasked.iter().map(Identity::as_str).collect();
        printer.warn(format_args!(
            "not asked, because they did not tell the key that a secret is sealed for: {}",
            names.join(", ")
        ));
        Ok(if asked > 0 {
            Exit::SomeFailed
        } else {
            Exit::NoneAnswered
        })
    }
}

impl Request {
    /// Whether nodes are to tell of progress: as the flags say, or else as the schema does.
    fn wants_progress(&self, action: &Action) -> bool {
        self.output.stream || (action.streams() && !self.output.no_stream)
    }
}

/// The words that were typed, or those of the job that goes on.
fn words(args: &Request, past: Option<&Past>) -> Result<Words, AskError> {
    let Some(agent) = &args.agent else {
        // The command line is read such that one of the two is there.
        return past.map_or_else(|| Words::read("", &args.words), |past| Ok(past.words()));
    };
    let mut words = Words::read(agent, &args.words)?;
    if let Some(past) = past {
        words
            .action
            .get_or_insert_with(|| past.job.header.action.clone());
    }
    Ok(words)
}

/// Says what is about to be done, and asks whether it shall be, where that is wanted.
async fn confirm(
    question: &Question<'_>,
    nodes: &BTreeSet<Identity>,
    args: &Request,
    settings: &Settings,
    cx: Context<'_>,
) -> Result<(), AskError> {
    let Plan { ddl, action, .. } = question.plan;
    let occasion = Occasion {
        read_only: action.read_only(),
        nodes: nodes.len(),
        yes: args.errand.yes,
        terminal: is_terminal(),
    };
    let first = settings.confirm.first(settings.confirm_above, occasion);
    let rolling = Rolling {
        request: (ddl.name(), action.name()),
        nodes,
        rollout: question.rollout,
        pause: question.pause,
    };
    let waves = question.rollout.batches(nodes).len();
    match first {
        First::Refuse => Err(AskError::Unconfirmed),
        First::Go if waves < 2 => Ok(()),
        First::Go => {
            cx.printer.say(rolling.text().trim_end());
            Ok(())
        }
        First::Ask => {
            let text = format!("{}Go on? [y/N]", rolling.text());
            let yes = agreed(&text, cx.printer).await?;
            yes.then_some(()).ok_or(AskError::Declined)
        }
    }
}

/// Where answers go, when it is not here.
fn elsewhere(args: &Request, fleet: &Fleet) -> Result<Option<Answers>, AskError> {
    if args.errand.no_results {
        return Ok(Some(Answers::Unwanted));
    }
    let mailbox = args.errand.reply_to.as_deref();
    let address = mailbox.map(|name| fleet.mailbox(name)).transpose()?;
    Ok(address.map(Answers::Elsewhere))
}

/// The trace that the request is part of: that of whoever started us, or a new one if somebody wants to follow it.
pub fn traceparent(trace: bool, environment: &Environment) -> Option<Traceparent> {
    let given = environment.traceparent.as_deref();
    // A context that cannot be read counts as none, as the standard has it.
    given
        .and_then(|text| Traceparent::parse(text).ok())
        .or_else(|| trace.then(|| Traceparent::begin(Uuid::now_v7(), Uuid::now_v7())))
}

/// What may be done about a request that did not reach everybody or did not succeed everywhere.
fn next_steps(report: &Report, job: Option<&str>, cx: Context<'_>) {
    let Some(job) = job else { return };
    cx.printer.detail(format_args!("job {job}"));
    if !report.stats.not_asked.is_empty() {
        let nodes = counted(report.stats.not_asked.len());
        cx.printer.hint(format_args!(
            "`rpc do --resume {job}` asks the {nodes} that were not asked"
        ));
    }
    if report.stats.bad() > 0 {
        cx.printer.hint(format_args!(
            "`rpc do --retry-failed {job}` asks those again that failed or did not answer"
        ));
    }
}

/// The standard input holds the nodes or a secret, not both.
fn check_readers(source: &Source, words: &Words, action: &Action) -> Result<(), AskError> {
    let secret = words
        .inputs
        .iter()
        .find(|(name, value)| value == "-" && action.is_sensitive(name));
    match (source, secret) {
        (Source::Stdin { .. }, Some((input, _))) => Err(AskError::TwoReaders {
            input: input.clone(),
        }),
        _ => Ok(()),
    }
}

/// Nothing was sent, because there is nobody to send it to.
pub fn nobody_found(target: &Target, cx: Context<'_>) {
    cx.printer
        .error("no request sent, we did not discover any nodes");
    cx.printer.hint(format_args!(
        "looked for {}; `rpc find` tries filters out",
        target.filter.explain()
    ));
}
