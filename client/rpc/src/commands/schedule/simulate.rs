//! `rpc schedule simulate`: the starts of the next day. Sends nothing but discovery, and a question to the service for a schedule that exists.

use std::collections::BTreeMap;

use muster_base::{duration_millis, unix_millis_now};
use muster_contract::schedule::{MAX_LISTED_SEATS, ScheduleShowInput, ScheduleShowOutput};
use muster_request::{FleetConnection, TargetSelection};
use muster_schedule::{
    CompiledSchedule, ScheduleSeat, SeatList, SimulationInput, simulate_schedule,
};
use muster_wire::identity::{Identity, SubjectName};

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

/// Expected time of a run if no run was measured.
const DEFAULT_RUN_MILLIS: u64 = 60_000;

/// A schedule, and the seats and run times of its nodes.
struct KnownSchedule {
    schedule: CompiledSchedule,
    target: TargetSelection,
    seats: SeatList,
    /// Expected times of runs, in milliseconds.
    expected: BTreeMap<Identity, u64>,
}

/// Runs the command.
pub async fn run(args: ScheduleSimulateArgs, cx: CommandContext<'_>) -> CommandResult {
    let json = form::parse_json_form(&args.json)?;
    let KnownSchedule { schedule, target, mut seats, expected } = read_schedule(&args, cx).await?;
    let fleet = FleetConnection::connect(&cx.load_settings()?, &target).await?;
    let progress = ProgressReporter::new(cx.printer, json.is_none());
    let nodes = fleet.discover_nodes(&target, &progress).await?.nodes;
    if nodes.is_empty() {
        cx.report_no_nodes(&target);
        return Ok(CommandExitCode::Local);
    }
    let now = unix_millis_now();
    seats.assign(&nodes, now, 0);
    let duration = |node: &Identity| match args.takes {
        Some(takes) => duration_millis(takes),
        None => expected.get(node).copied().unwrap_or(DEFAULT_RUN_MILLIS),
    };
    let until = now.saturating_add(SIMULATED_MILLIS);
    let input = SimulationInput {
        schedule: &schedule,
        seats: &seats,
        duration: &duration,
        from: now,
        until,
    };
    let simulation = simulate_schedule(&input);
    let document = SimulationDocument::new(&simulation, &seats, now);
    let screen = cx.printer.screen();
    cx.print_result(json.as_ref(), &document, || render_simulation(&document, screen))?;
    Ok(CommandExitCode::Passed)
}

/// The schedule of the command line, or the one of that name with its seats.
async fn read_schedule(
    args: &ScheduleSimulateArgs,
    cx: CommandContext<'_>,
) -> Result<KnownSchedule> {
    let spec = &args.spec;
    if let ([name], None, None) = (args.words.as_slice(), spec.every, &spec.cron) {
        return fetch_named(name, spec.target.clone(), cx).await;
    }
    let settings = cx.load_settings()?;
    let schemas = cx.load_schemas(Some(&settings))?;
    let NewSchedule { compiled: schedule, target, .. } =
        build_schedule(&args.words, spec, &schemas, cx).await?;
    Ok(KnownSchedule { schedule, target, seats: SeatList::default(), expected: BTreeMap::new() })
}

async fn fetch_named(
    name: &str,
    collective: Option<SubjectName>,
    cx: CommandContext<'_>,
) -> Result<KnownSchedule> {
    let fleet = connect(collective.clone(), cx).await?;
    let input = ScheduleShowInput { name: name.to_owned(), load: None, seats: Some(true) };
    let shown: ScheduleShowOutput = fleet.call_scheduler("show", &input).await?;
    let spec = read_spec(&shown.spec)?;
    let schedule = spec.compile()?;
    let target = TargetSelection::from_filter(spec.filter, collective);
    if shown.seats.is_empty() && !shown.next.is_empty() {
        cx.printer.print_warning(format_args!(
            "the schedule has more than {MAX_LISTED_SEATS} nodes, so this simulation assigns new times to them; `rpc schedule show {name}` lists their next starts"
        ));
    }
    let seats = shown.seats.iter().filter_map(|row| Identity::parse(&row.node).ok().zip(Some(row)));
    let expected = seats.clone().filter_map(|(node, row)| Some((node, row.expected_ms?))).collect();
    let seats = seats.map(|(node, _)| ScheduleSeat { node, since: 0, absent_since: None });
    let seats = SeatList::try_from(seats.collect::<Vec<_>>()).unwrap_or_default();
    let target = target.with_agent(spec.agent.as_str())?;
    Ok(KnownSchedule { schedule, target, seats, expected })
}
