//! Actions that show schedules: `list`, `show`, `history`.

use std::collections::BTreeMap;

use muster_api::ActionError;
use muster_bus::leader;
use muster_contract::schedule::{
    ScheduleEntry, ScheduleHistoryInput, ScheduleHistoryOutput, ScheduleListOutput,
    ScheduleShowInput, ScheduleShowOutput,
};
use muster_contract::write_values;
use muster_filter::NodeFilter;

use crate::error::SchedulerError;
use crate::handle::SchedulerHandle;
use crate::view::{ScheduleView, parse_name};

/// Most rows of each list in an answer.
const MAX_ROWS: usize = 200;
/// Entries of a history if no number is requested.
const DEFAULT_ENTRIES: u64 = 20;

pub(super) async fn list(handle: SchedulerHandle) -> Result<ScheduleListOutput, ActionError> {
    let leader = leader::current_leader(handle.bucket()?).await.map_err(SchedulerError::from)?;
    let state = handle.read();
    let all_paused = state.pause.paused.is_some();
    let view = |(name, records)| ScheduleView::new(&handle, name, records, all_paused);
    let views = state.schedules.iter().filter_map(view);
    let ready = handle.directory().select_nodes(&NodeFilter::default(), &[]);
    Ok(ScheduleListOutput {
        schedules: views.map(|view| view.row()).collect(),
        paused: state.pause.paused.clone(),
        leader: leader.map(|leader| leader.host.to_string()),
        ready: ready.is_ok_and(|nodes| nodes.is_some()),
    })
}

pub(super) fn show(
    handle: &SchedulerHandle,
    input: &ScheduleShowInput,
) -> Result<ScheduleShowOutput, ActionError> {
    let name = parse_name(&input.name)?;
    let state = handle.read();
    let records = state.schedules.get_key_value(&name);
    let all_paused = state.pause.paused.is_some();
    let view = records
        .and_then(|(name, records)| ScheduleView::new(handle, name, records, all_paused))
        .ok_or(SchedulerError::Unknown(name))?;
    let mut outcomes: BTreeMap<String, usize> = BTreeMap::new();
    for turn in view.records.nodes.values().filter_map(|known| known.last.as_ref()) {
        *outcomes.entry(turn.outcome.as_str().to_owned()).or_default() += 1;
    }
    let mut overdue = view.overdue();
    overdue.truncate(MAX_ROWS);
    let mut missed = view.missed();
    missed.truncate(MAX_ROWS);
    let (load, peak, balanced_peak) =
        if input.load == Some(true) { view.load() } else { (Vec::new(), 0, 0) };
    let seats = if input.seats == Some(true) { view.seat_rows() } else { Vec::new() };
    Ok(ScheduleShowOutput {
        schedule: view.row(),
        spec: view.schedule().map(|schedule| write_values(schedule.spec())).unwrap_or_default(),
        outcomes,
        next: view.start_rows(MAX_ROWS),
        overdue,
        missed,
        load,
        peak,
        balanced_peak,
        seats,
    })
}

pub(super) fn history(
    handle: &SchedulerHandle,
    input: &ScheduleHistoryInput,
) -> Result<ScheduleHistoryOutput, ActionError> {
    let name = parse_name(&input.name)?;
    let state = handle.read();
    let records = state.schedules.get(&name).filter(|records| records.schedule.is_some());
    let records = records.ok_or(SchedulerError::Unknown(name))?;
    let is_wanted =
        |entry: &&ScheduleEntry| input.node.as_deref().is_none_or(|wanted| entry.node == wanted);
    let entries = records.history.iter().filter(is_wanted);
    let count = usize::try_from(input.count.unwrap_or(DEFAULT_ENTRIES)).unwrap_or(MAX_ROWS);
    Ok(ScheduleHistoryOutput { entries: entries.take(count.max(1)).cloned().collect() })
}
