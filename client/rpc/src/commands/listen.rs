//! `rpc listen`: shows the answers to requests that were sent with `--reply-to`, as the request itself would have.

use super::context::Context;
use super::form;
use super::request::output::{Form, Output, complain, divert};
use crate::ask::{Fleet, Listening, News, Target, Words};
use crate::cli::listen::Listen;
use crate::error::Error;
use crate::exit::Exit;
use crate::printer::Talk;
use crate::render::request::View;
use crate::report::Gap;

/// Runs the command.
pub async fn run(args: Listen, cx: Context<'_>) -> Result<Exit, Error> {
    if let Some(path) = &args.output.file {
        divert(path, cx)?;
    }
    let form = Form::of(&args.output)?;
    let ended = listen(&args, &form, cx).await;
    if let (Form::Lines, Err(error)) = (&form, &ended) {
        complain(error, cx)?;
    }
    ended
}

async fn listen(args: &Listen, form: &Form, cx: Context<'_>) -> Result<Exit, Error> {
    let settings = cx.settings_if_any()?;
    let schemas = cx.schemas(settings.as_ref())?;
    let words = Words {
        agent: args.agent.clone(),
        action: args.action.clone(),
        inputs: Vec::new(),
    };
    let (ddl, action) = schemas.action(&words)?;
    let filter = form::replies(args.output.filter_replies.as_deref(), action)?;
    let settings = settings.map_or_else(|| cx.settings(), Ok)?;
    let fleet = Fleet::connect(&settings, &Target::of_collective(None)).await?;
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
    let listening = Listening {
        mailbox: &args.mailbox,
        ddl,
        action,
        request: args.request,
        expect: args
            .expect
            .map(|count| usize::try_from(count).unwrap_or(usize::MAX)),
        time: args.timeout,
    };
    let tells = args.output.stream || (action.streams() && !args.output.no_stream);
    let ready = |subject: &str| cx.printer.say(format_args!("Listening on {subject}"));
    let heard = fleet.listen(listening, ready, |news| match news {
        News::Progress(_) if !tells => Ok(()),
        news => output.news(news),
    });
    let mut report = heard.await?;
    if args.output.sort {
        report.replies.sort_by(|a, b| a.node.cmp(&b.node));
    }
    output.end(&report, None)?;
    cx.warn_of_gaps(&report);
    let interrupted = report.stats.gaps.contains(&Gap::Interrupted);
    Ok(if report.stats.responses() == 0 && !interrupted {
        Exit::NoneAnswered
    } else {
        report.stats.exit()
    })
}
