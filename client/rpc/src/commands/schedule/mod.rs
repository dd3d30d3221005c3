//! `rpc schedule`: adds, shows and changes the schedules of the fleet. The scheduling service requests the actions.

mod add;
pub mod args;
pub mod load_output;
pub mod output;
mod simulate;
mod spec;

use muster_contract::schedule::{
    ScheduleAgent, ScheduleChangeOutput, ScheduleHistory, ScheduleHistoryInput,
    ScheduleHistoryOutput, ScheduleList, ScheduleListOutput, ScheduleNameInput, SchedulePause,
    SchedulePauseInput, ScheduleRebalance, ScheduleRemove, ScheduleResume, ScheduleResumeInput,
    ScheduleShow, ScheduleShowInput, ScheduleShowOutput,
};
use muster_ddl::{Action, EmptyInput};
use muster_display::printer::GOOD;
use muster_wire::token::ServiceRight;

use crate::commands::schedule::args::{
    ScheduleCommand, ScheduleHistoryArgs, ScheduleNameArgs, SchedulePauseArgs,
    ScheduleSelectionArgs, ScheduleShowArgs,
};
use crate::commands::schedule::load_output::render_load;
use crate::commands::schedule::output::{
    render_schedule, render_schedule_history, render_schedule_list,
};
use crate::flags::json::JsonArgs;
use crate::request::service::{connect_to_services, query_service};
use crate::session::context::{CommandContext, CommandExitCode, CommandResult};

pub async fn run(command: ScheduleCommand, cx: CommandContext<'_>) -> CommandResult {
    match command {
        ScheduleCommand::Add(args) => add::run(*args, cx).await,
        ScheduleCommand::List(json) => list_schedules(&json, cx).await,
        ScheduleCommand::Show(args) => show_schedule(args, cx).await,
        ScheduleCommand::Pause(args) => pause_schedules(args, cx).await,
        ScheduleCommand::Resume(args) => resume_schedules(args, cx).await,
        ScheduleCommand::Remove(args) => change::<ScheduleRemove>(&name_input(&args), cx).await,
        ScheduleCommand::Rebalance(args) => {
            change::<ScheduleRebalance>(&name_input(&args), cx).await
        }
        ScheduleCommand::History(args) => show_history(args, cx).await,
        ScheduleCommand::Simulate(args) => simulate::run(*args, cx).await,
    }
}

fn name_input(args: &ScheduleNameArgs) -> ScheduleNameInput {
    ScheduleNameInput { name: args.name.to_string() }
}

async fn list_schedules(json: &JsonArgs, cx: CommandContext<'_>) -> CommandResult {
    let render = |list: &ScheduleListOutput| {
        if list.schedules.is_empty() {
            cx.printer.print_message("no schedules; see `rpc schedule add --help`");
        }
        if !list.ready {
            cx.printer.print_warning(
                "the service does not know all nodes yet: it has just started, or has lost its connection",
            );
        }
        render_schedule_list(list, cx.table_width())
    };
    query::<ScheduleList>(&EmptyInput {}, (json, "muster.schedules.v1"), render, cx).await
}

async fn show_schedule(args: ScheduleShowArgs, cx: CommandContext<'_>) -> CommandResult {
    let input =
        ScheduleShowInput { name: args.name.to_string(), load: Some(args.load), seats: None };
    let screen = cx.printer.screen();
    let render = |shown: &ScheduleShowOutput| {
        render_schedule(shown, screen.table_width) + &render_load(&shown.load, screen)
    };
    query::<ScheduleShow>(&input, (&args.json, "muster.schedule.v1"), render, cx).await
}

async fn show_history(args: ScheduleHistoryArgs, cx: CommandContext<'_>) -> CommandResult {
    let input = ScheduleHistoryInput {
        name: args.name.to_string(),
        node: args.node.map(|node| node.to_string()),
        count: Some(args.count),
    };
    let render = |history: &ScheduleHistoryOutput| {
        if history.entries.is_empty() {
            cx.printer.print_message("no turn yet");
        }
        render_schedule_history(history, cx.table_width())
    };
    query::<ScheduleHistory>(&input, (&args.json, "muster.schedule.history.v1"), render, cx).await
}

async fn pause_schedules(args: SchedulePauseArgs, cx: CommandContext<'_>) -> CommandResult {
    let SchedulePauseArgs { selection: ScheduleSelectionArgs { name, all }, reason } = args;
    let name = name.map(|name| name.to_string());
    change::<SchedulePause>(&SchedulePauseInput { name, all: all.then_some(true), reason }, cx)
        .await
}

async fn resume_schedules(args: ScheduleSelectionArgs, cx: CommandContext<'_>) -> CommandResult {
    let ScheduleSelectionArgs { name, all } = args;
    let name = name.map(|name| name.to_string());
    change::<ScheduleResume>(&ScheduleResumeInput { name, all: all.then_some(true) }, cx).await
}

/// Asks the scheduling service, and prints its answer.
async fn query<A: Action<Agent = ScheduleAgent>>(
    input: &A::Input,
    shown: (&JsonArgs, &'static str),
    render: impl FnOnce(&A::Output) -> String,
    cx: CommandContext<'_>,
) -> CommandResult {
    query_service::<A>(ServiceRight::Schedule, input, shown, render, cx).await
}

/// Sends a change, and prints what was done.
async fn change<A>(input: &A::Input, cx: CommandContext<'_>) -> CommandResult
where
    A: Action<Agent = ScheduleAgent, Output = ScheduleChangeOutput>,
{
    let fleet = connect_to_services(None, cx).await?;
    let output = fleet.client.call_service::<A>(ServiceRight::Schedule, input).await?;
    let text = output.text;
    cx.printer.print_line(format_args!("{GOOD}{text}{GOOD:#}"))?;
    Ok(CommandExitCode::Passed)
}
