//! `rpc schedule`: adds, shows and changes the schedules of the fleet. The scheduling service requests the actions.

mod add;
mod simulate;
mod spec;

use muster_contract::schedule::{
    ScheduleChangeOutput, ScheduleHistoryOutput, ScheduleListOutput, ScheduleShowOutput,
};
use muster_request::NodeReply;
use muster_wire::identity::SubjectName;
use serde::Serialize;

use super::form;
use super::service_client::{FleetService, ServiceClient};
use crate::cli::json::JsonArgs;
use crate::cli::schedule::{
    ScheduleCommand, ScheduleHistoryArgs, SchedulePauseArgs, ScheduleSelectionArgs,
    ScheduleShowArgs,
};
use crate::commands::context::{CommandContext, CommandExitCode, CommandResult, Result};
use crate::printer::GOOD;
use crate::render::escape_to_line;
use crate::render::schedule::{
    ScheduleDocument, render_schedule, render_schedule_history, render_schedule_list,
};
use crate::render::schedule_load::render_load;

const SCHEDULER: FleetService = FleetService {
    agent: "schedule",
    absent: "no host runs the scheduling service; enable it in [plugins.scheduler] on one",
    silent: "no scheduling host replied",
};

/// Runs one of the commands.
pub async fn run(command: ScheduleCommand, cx: CommandContext<'_>) -> CommandResult {
    match command {
        ScheduleCommand::Add(args) => add::run(*args, cx).await,
        ScheduleCommand::List(args) => list_schedules(&args.json, cx).await,
        ScheduleCommand::Show(args) => show_schedule(args, cx).await,
        ScheduleCommand::Pause(args) => pause_schedules(args, cx).await,
        ScheduleCommand::Resume(args) => change("resume", &selection_inputs(&args), cx).await,
        ScheduleCommand::Remove(args) => {
            change("remove", &[("name", args.name.as_str())], cx).await
        }
        ScheduleCommand::History(args) => show_history(args, cx).await,
        ScheduleCommand::Simulate(args) => simulate::run(*args, cx).await,
    }
}

async fn list_schedules(json: &JsonArgs, cx: CommandContext<'_>) -> CommandResult {
    let text = |list: &ScheduleListOutput| {
        if list.schedules.is_empty() {
            cx.printer.print_message("no schedules; see `rpc schedule add --help`");
        }
        if !list.ready {
            cx.printer.print_warning("the service does not know the nodes yet: it has just started, or no directory answers");
        }
        render_schedule_list(list, cx.width())
    };
    query("list", &[], (json, "muster.schedules.v1"), text, cx).await
}

async fn show_schedule(args: ScheduleShowArgs, cx: CommandContext<'_>) -> CommandResult {
    let mut inputs = vec![("name", args.name.as_str())];
    if args.load {
        inputs.push(("load", "true"));
    }
    let screen = cx.printer.screen();
    let text = |shown: &ScheduleShowOutput| {
        let load = if args.load { render_load(&shown.load, screen) } else { String::new() };
        render_schedule(shown, screen.width) + &load
    };
    query("show", &inputs, (&args.json, "muster.schedule.v1"), text, cx).await
}

async fn show_history(args: ScheduleHistoryArgs, cx: CommandContext<'_>) -> CommandResult {
    let count = args.count.to_string();
    let mut inputs = vec![("name", args.name.as_str()), ("count", count.as_str())];
    inputs.extend(args.node.as_ref().map(|node| ("node", node.as_str())));
    let text = |history: &ScheduleHistoryOutput| {
        if history.entries.is_empty() {
            cx.printer.print_message("no turn yet");
        }
        render_schedule_history(history, cx.width())
    };
    query("history", &inputs, (&args.json, "muster.schedule.history.v1"), text, cx).await
}

async fn pause_schedules(args: SchedulePauseArgs, cx: CommandContext<'_>) -> CommandResult {
    let mut inputs = selection_inputs(&args.selection);
    inputs.extend(args.reason.as_deref().map(|reason| ("reason", reason)));
    change("pause", &inputs, cx).await
}

fn selection_inputs(selection: &ScheduleSelectionArgs) -> Vec<(&str, &str)> {
    match &selection.name {
        Some(name) => vec![("name", name.as_str())],
        None => vec![("all", "true")],
    }
}

/// Asks the service, and prints its answer as a document or as text.
async fn query<T>(
    action: &str,
    inputs: &[(&str, &str)],
    (json, schema): (&JsonArgs, &'static str),
    render: impl FnOnce(&T) -> String,
    cx: CommandContext<'_>,
) -> CommandResult
where
    T: serde::de::DeserializeOwned + Default + Serialize,
{
    let json = form::parse_json_form(json)?;
    let Some(service) = ServiceClient::find_hosts(SCHEDULER, None, cx).await? else {
        return Ok(CommandExitCode::Local);
    };
    let reply = match ask(&service, action, inputs, cx).await? {
        Ok(reply) => reply,
        Err(exit) => return Ok(exit),
    };
    let output: T = reply.typed_outputs();
    let document = ScheduleDocument { schema, output: &output };
    cx.print_result(json.as_ref(), &document, || render(&output))?;
    Ok(CommandExitCode::Passed)
}

/// Sends a change, and prints what was done.
async fn change(action: &str, inputs: &[(&str, &str)], cx: CommandContext<'_>) -> CommandResult {
    let Some(service) = ServiceClient::find_hosts(SCHEDULER, None, cx).await? else {
        return Ok(CommandExitCode::Local);
    };
    let reply = match ask(&service, action, inputs, cx).await? {
        Ok(reply) => reply,
        Err(exit) => return Ok(exit),
    };
    let ScheduleChangeOutput { text, .. } = reply.typed_outputs();
    cx.printer.print_line(format_args!("{GOOD}{}{GOOD:#}", escape_to_line(&text)))?;
    Ok(CommandExitCode::Passed)
}

/// The successful reply of the service; otherwise prints its error and returns the exit code.
async fn ask(
    service: &ServiceClient<'_>,
    action: &str,
    inputs: &[(&str, &str)],
    cx: CommandContext<'_>,
) -> Result<Result<NodeReply, CommandExitCode>> {
    let Some(reply) = service.ask_first_host(action, inputs).await? else {
        return Ok(Err(CommandExitCode::NoneAnswered));
    };
    if reply.is_ok() {
        return Ok(Ok(reply));
    }
    cx.printer.print_error(format_args!("{}: {}", reply.node, escape_to_line(&reply.message)));
    Ok(Err(CommandExitCode::SomeFailed))
}

/// The schedule of that name, as its author signed it.
async fn fetch_schedule(
    service: &ServiceClient<'_>,
    name: &SubjectName,
    cx: CommandContext<'_>,
) -> Result<Result<ScheduleShowOutput, CommandExitCode>> {
    let reply = ask(service, "show", &[("name", name.as_str())], cx).await?;
    Ok(reply.map(|reply| reply.typed_outputs()))
}
