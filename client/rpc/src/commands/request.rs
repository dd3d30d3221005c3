//! `rpc do AGENT ACTION`, `rpc AGENT ACTION`: asks an action of all nodes that match, and shows what they answer.

mod output;
mod propose;

use muster_client::{Source, choose};
use muster_ddl::Action;

use super::context::Context;
use super::form;
use crate::approval::{ApprovingError, given};
use crate::ask::{
    AskError, Fleet, Found, Plan, Progress, Question, Schemas, Target, Words, read_secrets,
};
use crate::cli::Cli;
use crate::cli::request::Request;
use crate::error::Error;
use crate::exit::Exit;
use crate::printer::Talk;
use crate::render::agent_help;
use crate::render::request::View;
use output::{Form, Output, complain, divert};
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
    let words = Words::read(&args.agent, &args.words)?;
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
    let words = Words::read(&args.agent, &args.words)?;
    let filter = form::replies(args.output.filter_replies.as_deref())?;
    // A wrong command line is told before a missing configuration.
    let settings = cx.settings_if_any()?;
    let mut schemas = cx.schemas(settings.as_ref())?;
    if args.bare {
        schemas.commands = Cli::commands();
    }
    let (ddl, action) = schemas.action(&words)?;
    if args.approve.is_some() && !target.filter.is_empty() {
        return Err(ApprovingError::AndFilters.into());
    }
    let target = target.with_agent(ddl.name())?;
    let source = target.source(settings.as_ref())?;
    check_readers(&source, &words, action)?;
    let inputs = read_secrets(action, words.inputs).await?;
    let plan = Plan::new(ddl, action, &inputs)?;

    let settings = settings.map_or_else(|| cx.settings(), Ok)?;
    let given = match &args.approve {
        Some(path) => Some(given(path, &plan, &settings)?),
        None => None,
    };
    if given.is_none() {
        target.check_filtered(&source, action, &settings)?;
    }
    let fleet = Fleet::connect(&settings, &target).await?;
    let progress = Progress::new(cx.printer, !form.is_json() && !args.output.no_progress);
    let (mut found, approval) = match given {
        Some(given) => (Found::named(given.nodes), Some(given.text)),
        None => {
            let found = fleet.discover(&target, &progress).await?;
            cx.remember(&found.nodes);
            (found, None)
        }
    };
    if let Some(limit) = args.pace.limit() {
        found.nodes = choose(&found.nodes, limit, args.pace.limit_seed);
    }
    if let Some(path) = &args.propose {
        let proposing = Proposing {
            plan: &plan,
            target: &target,
            nodes: found.nodes,
            lifetime: args.approval_for,
        };
        return propose(path, proposing, &settings, cx);
    }
    let question = Question {
        plan: &plan,
        timeout: args.timeout,
        ttl: args.ttl,
        stream: form.shows_progress() && args.wants_progress(action),
        rollout: args.pace.rollout(),
        pause: args.pace.batch_sleep,
        approval,
    };
    let output = Output {
        form,
        filter,
        sort: args.output.sort,
        view: View {
            action,
            wish: args.output.display,
            verbose: cx.printer.talk() == Talk::Verbose,
            width: cx.printer.screen().width,
        },
        cx,
    };
    output.found(ddl.name(), action.name(), &found.nodes)?;
    let mut report = fleet
        .ask(question, found, &progress, |news| output.news(news))
        .await?;
    if args.output.sort {
        report.replies.sort_by(|a, b| a.node.cmp(&b.node));
    }
    output.end(&report, &target)?;
    cx.warn_of_gaps(&report);
    Ok(report.stats.exit())
}

impl Request {
    /// Whether nodes are to tell of progress: as the flags say, or else as the schema does.
    fn wants_progress(&self, action: &Action) -> bool {
        self.output.stream || (action.streams() && !self.output.no_stream)
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
