//! `rpc schedule simulate`: the starts of the next day. Sends nothing but discovery, and a question to the service for a schedule that exists.

use std::collections::BTreeMap;

use muster_base::{duration_millis, unix_millis_now};
use muster_client::{AgentSchemas, TargetSelection};
use muster_contract::schedule::{MAX_LISTED_SEATS, ScheduleShow, ScheduleShowInput};
use muster_schedule::{
    CompiledSchedule, ScheduleSeat, SeatList, SimulationInput, simulate_schedule,
};
use muster_wire::Millis;
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::token::ServiceRight;

use crate::commands::schedule::add::{check_end, read_spec};
use crate::commands::schedule::args::ScheduleSimulateArgs;
use crate::commands::schedule::load_output::{SimulationDocument, render_simulation};
use crate::commands::schedule::spec::{NewSchedule, ScheduleArgsError, build_schedule};
use crate::report::progress::ProgressReporter;
use crate::request::service::connect_to_services;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult, Result};

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

pub async fn run(args: ScheduleSimulateArgs, cx: CommandContext<'_>) -> CommandResult {
    let json = args.json.form()?;
    let now = unix_millis_now();
    let end = args.spec.until.map(|until| check_end(until.millis(now), now)).transpose()?;
    let KnownSchedule { schedule, target, mut seats, expected } = read_schedule(&args, cx).await?;
    let fleet = cx.connect(&target).await?;
    let progress = ProgressReporter::new(cx.printer, json.is_none());
    let nodes = fleet.locate(&target, &progress).await?.nodes;
    if nodes.is_empty() {
        cx.report_no_nodes(&target);
        return Ok(CommandExitCode::Local);
    }
    let now = unix_millis_now();
    let until = now.saturating_add(SIMULATED_MILLIS).min(end.unwrap_or(Millis::MAX));
    seats.assign(&nodes, now, 0);
    let duration = |node: &Identity| match args.takes {
        Some(takes) => duration_millis(takes),
        None => expected.get(node).copied().unwrap_or(DEFAULT_RUN_MILLIS),
    };
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
        if !spec.is_only_target() {
            return Err(ScheduleArgsError::StoredWithOptions(name.clone()).into());
        }
        return fetch_named(name, spec.target.clone(), cx).await;
    }
    let schemas = cx.load_configured_schemas()?;
    let words = without_name(&args.words, &schemas);
    let NewSchedule { compiled: schedule, target, .. } =
        build_schedule(words, spec, &schemas, cx).await?;
    Ok(KnownSchedule { schedule, target, seats: SeatList::default(), expected: BTreeMap::new() })
}

/// The words after the name of a new schedule, which a line of `rpc schedule add` has before the agent.
fn without_name<'a>(words: &'a [String], schemas: &AgentSchemas) -> &'a [String] {
    let [first, rest @ ..] = words else { return words };
    let [second, ..] = rest else { return words };
    let agent = schemas.store.get(first);
    let is_action = agent.is_some_and(|agent| agent.find_action(second).is_some());
    if !is_action && schemas.store.get(second).is_some() { rest } else { words }
}

async fn fetch_named(
    name: &str,
    collective: Option<SubjectName>,
    cx: CommandContext<'_>,
) -> Result<KnownSchedule> {
    let fleet = connect_to_services(collective.clone(), cx).await?;
    let input = ScheduleShowInput { name: name.to_owned(), load: None, seats: Some(true) };
    let shown = fleet.client.call_service::<ScheduleShow>(ServiceRight::Schedule, &input).await?;
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

#[cfg(test)]
mod tests {
    use muster_client::AgentSchemas;

    use super::without_name;

    #[test]
    fn line_of_add_is_understood() {
        let schemas = AgentSchemas::load(None).unwrap();
        for (line, expected) in [
            ("puppet runonce", "puppet runonce"),
            ("puppet puppet runonce tags=a", "puppet runonce tags=a"),
            ("nightly package refresh", "package refresh"),
            ("puppet", "puppet"),
            ("rpcutil get_fact fact=os", "rpcutil get_fact fact=os"),
            ("pupet runonce", "pupet runonce"),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(without_name(&words, &schemas).join(" "), expected);
        }
    }
}
