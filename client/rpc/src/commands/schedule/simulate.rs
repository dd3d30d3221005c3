//! `rpc schedule simulate`: the starts of the next day. Sends nothing but discovery, and a question to the service for a schedule that exists.

use muster_base::{duration_millis, unix_millis_now};
use muster_contract::schedule::{ScheduleShowInput, ScheduleShowOutput};
use muster_request::{FleetConnection, TargetSelection};
use muster_schedule::{CompiledSchedule, SeatList, SimulationInput, simulate_schedule};
use muster_wire::identity::SubjectName;

use super::add::read_spec;
use super::connect;
use super::spec::{NewSchedule, build_schedule};
use crate::cli::schedule::ScheduleSimulateArgs;
use crate::commands::context::{CommandContext, CommandExitCode, CommandResult, Result};
use crate::commands::form;
use crate::progress::ProgressReporter;
use crate::render::schedule_load::{SimulationDocument, render_simulation};

/// The simulated time: one day.
const SIMULATED_MILLIS: u64 = 24 * 60 * 60 * 1000;

/// Runs the command.
pub async fn run(args: ScheduleSimulateArgs, cx: CommandContext<'_>) -> CommandResult {
    let json = form::parse_json_form(&args.json)?;
    let (schedule, target) = read_schedule(&args, cx).await?;
    let fleet = FleetConnection::connect(&cx.load_settings()?, &target).await?;
    let progress = ProgressReporter::new(cx.printer, json.is_none());
    let nodes = fleet.discover_nodes(&target, &progress).await?.nodes;
    if nodes.is_empty() {
        cx.report_no_nodes(&target);
        return Ok(CommandExitCode::Local);
    }
    let now = unix_millis_now();
    let mut seats = SeatList::default();
    seats.assign(&nodes, now, 0);
    let duration = duration_millis(args.takes);
    let until = now.saturating_add(SIMULATED_MILLIS);
    let input = SimulationInput {
        schedule: &schedule,
        seats: &seats,
        duration: &|_| duration,
        from: now,
        until,
    };
    let simulation = simulate_schedule(&input);
    let document = SimulationDocument::new(&simulation, &seats, now);
    let screen = cx.printer.screen();
    cx.print_result(json.as_ref(), &document, || render_simulation(&document, screen))?;
    Ok(CommandExitCode::Passed)
}

/// The schedule of the command line, or the one of that name.
async fn read_schedule(
    args: &ScheduleSimulateArgs,
    cx: CommandContext<'_>,
) -> Result<(CompiledSchedule, TargetSelection)> {
    let spec = &args.spec;
    if let ([name], None, None) = (args.words.as_slice(), spec.every, &spec.cron) {
        return fetch_named(name, spec.target.clone(), cx).await;
    }
    let settings = cx.load_settings()?;
    let schemas = cx.load_schemas(Some(&settings))?;
    let NewSchedule { compiled, target, .. } =
        build_schedule(&args.words, spec, &schemas, cx).await?;
    Ok((compiled, target))
}

async fn fetch_named(
    name: &str,
    collective: Option<SubjectName>,
    cx: CommandContext<'_>,
) -> Result<(CompiledSchedule, TargetSelection)> {
    let fleet = connect(collective.clone(), cx).await?;
    let input = ScheduleShowInput { name: name.to_owned(), load: None };
    let shown: ScheduleShowOutput = fleet.call_scheduler("show", &input).await?;
    let spec = read_spec(&shown.spec)?;
    let compiled = spec.compile()?;
    let target = TargetSelection::from_filter(spec.filter, collective);
    Ok((compiled, target.with_agent(spec.agent.as_str())?))
}
