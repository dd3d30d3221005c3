//! `rpc listen`: prints the replies to requests that were sent with `--reply-to`, in the format of the request command.

pub mod args;

use muster_client::{ListenRequest, RequestWords, ResultGap, TargetSelection, listen_for_replies};

use crate::commands::listen::args::ListenArgs;
use crate::report::request_form::{RequestOutputForm, run_with_form};
use crate::report::request_output::RequestOutput;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult};
use crate::session::form;

pub async fn run(args: ListenArgs, cx: CommandContext<'_>) -> CommandResult {
    run_with_form(&args.output, cx, async |form| print_replies(&args, form, cx).await).await
}

async fn print_replies(
    args: &ListenArgs,
    form: &RequestOutputForm,
    cx: CommandContext<'_>,
) -> CommandResult {
    let schemas = cx.load_schemas()?;
    let words = RequestWords::new(&args.agent, args.action.as_deref(), &[]);
    let (ddl, action) = schemas.find_action(&words)?;
    form.check_outputs(action)?;
    let filter = form::parse_reply_filter(args.output.filter_replies.as_deref(), action)?;
    let fleet = cx.connect(&TargetSelection::for_collective(None)).await?;
    let output = RequestOutput::new(form, filter, &args.output, action, cx);
    let request = ListenRequest {
        mailbox: &args.mailbox,
        ddl,
        action,
        request: args.request,
        expect: args.expect.map(|count| usize::try_from(count).unwrap_or(usize::MAX)),
        time: args.timeout,
    };
    let mut report = listen_for_replies(&fleet, request, &output).await?;
    output.print_end(&mut report, None)?;
    cx.warn_of_gaps(&report);
    let interrupted = report.stats.gaps.contains(&ResultGap::Interrupted);
    Ok(if report.stats.response_count() == 0 && !interrupted {
        CommandExitCode::NoneAnswered
    } else {
        report.stats.outcome().into()
    })
}
