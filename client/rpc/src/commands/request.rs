//! `rpc do AGENT ACTION`, `rpc AGENT ACTION`: asks an action of all nodes that match, and shows what they answer.

mod output;

use std::collections::BTreeSet;

use muster_client::choose;
use muster_ddl::Action;
use muster_wire::identity::Identity;

use super::context::Context;
use crate::ask::{
    AskError, Fleet, Found, NodesError, Plan, Progress, Question, Schemas, Target, Words,
    read_nodes, read_secrets,
};
use crate::cli::Cli;
use crate::cli::request::Request;
use crate::error::Error;
use crate::exit::Exit;
use crate::printer::Talk;
use crate::render::request::View;
use output::{Form, Output, complain, divert};

/// Runs the command. Replies are shown as they come, unless they are sorted or go into a document.
pub async fn run(args: Request, cx: Context<'_>) -> Result<Exit, Error> {
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

async fn ask(args: Request, form: &Form, cx: Context<'_>) -> Result<Exit, Error> {
    let target = Target::read(&args.filters)?;
    let words = Words::read(&args.agent, &args.words)?;
    // A wrong command line is told before a missing configuration.
    let settings = cx.settings_if_any()?;
    let mut schemas = Schemas::load(settings.as_ref())?;
    if args.bare {
        schemas.commands = Cli::commands();
    }
    let (ddl, action) = schemas.action(&words)?;
    let nodes = listed(&args, &target, &words, action)?;
    let target = target.with_agent(ddl.name())?;
    let inputs = read_secrets(action, words.inputs).await?;
    let plan = Plan::new(ddl, action, &inputs)?;

    let settings = settings.map_or_else(|| cx.settings(), Ok)?;
    let fleet = Fleet::connect(&settings, &target).await?;
    let progress = Progress::new(cx.printer, !form.is_json() && !args.output.no_progress);
    let mut found = match nodes {
        Some(nodes) => Found::named(nodes),
        None => fleet.discover(&target.filter, &progress).await?,
    };
    if let Some(limit) = args.pace.limit() {
        found.nodes = choose(&found.nodes, limit, args.pace.limit_seed);
    }
    let question = Question {
        plan: &plan,
        timeout: args.timeout,
        ttl: args.ttl,
        stream: form.shows_progress() && args.wants_progress(action),
        rollout: args.pace.rollout(),
        pause: args.pace.batch_sleep,
    };
    let output = Output {
        form,
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

/// The nodes that `--nodes` lists, if it is given.
fn listed(
    args: &Request,
    target: &Target,
    words: &Words,
    action: &Action,
) -> Result<Option<BTreeSet<Identity>>, AskError> {
    let Some(path) = &args.nodes else {
        return Ok(None);
    };
    if !target.filter.is_empty() {
        return Err(NodesError::AndFilters.into());
    }
    let secret = words
        .inputs
        .iter()
        .find(|(name, value)| value == "-" && action.is_sensitive(name));
    if let Some((input, _)) = secret.filter(|_| path.as_os_str() == "-") {
        let input = input.clone();
        return Err(NodesError::TwoReaders { input }.into());
    }
    Ok(Some(read_nodes(path)?))
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
