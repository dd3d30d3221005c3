//! Runs: their events while they go on, and one row when they end.

use muster_contract::history::HistoryKind;
use muster_wire::history::{HistoryEvent, HistoryRecord, RunCause, fold_run};
use rusqlite::{OptionalExtension as _, params};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::database::{HistoryIndex, to_signed};
use super::error::IndexError;
use super::origin::find_origin;
use super::row::{NewRow, Taking, kind_number, value_text};

/// JSON of the events of one run: of a run of 30,000 resources. Further ones are left out.
pub(super) const MAX_RUN_BYTES: usize = 32 * 1024 * 1024;

/// Ends a run, and numbers its end after those that were taken before. The condition of the number is that of its index: without it, each end reads all runs.
const END_RUN: &str = "UPDATE run SET ended = ?2, status = ?3, resources = ?4, changed = ?5, failed = ?6, problem = ?7, events = ?8,
         version = ?9, puppet_version = ?10, cached_catalog = ?11, noop_pending = ?12, corrective = ?13, eventful = ?14,
         taken = (SELECT coalesce(max(taken), 0) + 1 FROM run WHERE taken IS NOT NULL)
     WHERE id = ?1";

/// What became of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AddedEvent {
    Added,
    /// The run has ended, belongs to another node, or has the event.
    Refused,
    /// There is no run with this id.
    NoRun,
}

pub(super) fn begin_run(
    taking: &Taking<'_>,
    time: u64,
    run: Uuid,
    cause: &RunCause,
    report: &Map<String, Value>,
) -> Result<(), IndexError> {
    let mut insert = taking.transaction.prepare_cached(
        "INSERT INTO run (id, node, started, status, noop, engine, who, request, release, environment)
         VALUES (?1, ?2, ?3, 'running', ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT DO NOTHING",
    )?;
    let began = report.get("time").and_then(Value::as_str).and_then(parse_time);
    insert.execute(params![
        run.to_string(),
        taking.node,
        to_signed(began.unwrap_or(time).min(time)),
        report.get("noop").and_then(Value::as_bool).unwrap_or_default(),
        cause.engine,
        cause.caller,
        cause.request.map(|request| request.to_string()),
        cause.release,
        report.get("environment").and_then(Value::as_str),
    ])?;
    Ok(())
}

/// Adds an event to a run of this node that has begun and not ended: no node writes into the run of another one. Beyond a bound, only the end is added.
pub(super) fn add_event(
    taking: &Taking<'_>,
    run: Uuid,
    record: &HistoryRecord,
) -> Result<AddedEvent, IndexError> {
    let (id, text) = (run.to_string(), serde_json::to_string(&record.event)?);
    let number = record.number.map(to_signed);
    // An event of a run that was taken for lost shows that it goes on.
    let mut size = taking.transaction.prepare_cached(
        "UPDATE run SET bytes = bytes + ?3, next = coalesce(?4 + 1, next), status = 'running', problem = NULL
         WHERE id = ?1 AND node = ?2 AND ended IS NULL AND (?4 IS NULL OR next <= ?4) RETURNING bytes",
    )?;
    let size = size
        .query_row(params![id, taking.node, text.len(), number], |row| row.get::<_, usize>(0))
        .optional()?;
    let Some(size) = size else {
        let mut exists = taking.transaction.prepare_cached("SELECT 1 FROM run WHERE id = ?1")?;
        return Ok(if exists.exists([&id])? { AddedEvent::Refused } else { AddedEvent::NoRun });
    };
    let is_end = matches!(record.event, HistoryEvent::End { .. } | HistoryEvent::Aborted { .. });
    if is_end || size <= MAX_RUN_BYTES {
        taking
            .transaction
            .prepare_cached("INSERT INTO event (run, event) VALUES (?1, ?2)")?
            .execute(params![id, text])?;
    }
    Ok(AddedEvent::Added)
}

impl HistoryIndex {
    /// The runs that go on, as far as is known: their ids and nodes.
    pub fn going_on(&self) -> Result<Vec<(String, String)>, IndexError> {
        let reader = self.read();
        let mut select = reader.prepare_cached(
            "SELECT run.id, node.name FROM run JOIN node ON node.id = run.node
             WHERE ended IS NULL AND status = 'running'",
        )?;
        let found = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(found.collect::<Result<_, _>>()?)
    }

    /// Marks a run as aborted whose node is missing. When the node returns and the run goes on, its events are taken as before.
    pub fn mark_lost(&self, run: &str, time: u64, problem: &str) -> Result<(), IndexError> {
        let mut writer = self.write();
        // Not yet read by those who follow the rows: nothing is taken meanwhile.
        let revision = self.last_place()? + 1;
        let transaction = writer.transaction()?;
        let marked = transaction
            .prepare_cached(
                "UPDATE run SET status = 'aborted', problem = ?2
                 WHERE id = ?1 AND ended IS NULL AND status = 'running' RETURNING node",
            )?
            .query_row([run, problem], |row| row.get(0))
            .optional()?;
        if let (Some(node), Ok(id)) = (marked, Uuid::try_parse(run)) {
            let compressor = &self.compressor;
            let taking = Taking { transaction: &transaction, node, revision, compressor };
            insert_end_row(&taking, time, id, "aborted", problem.to_owned(), false)?;
        }
        transaction.commit()?;
        Ok(())
    }
}

/// Milliseconds since the epoch of a time in a report.
fn parse_time(text: &str) -> Option<u64> {
    let time: jiff::Timestamp = text.parse().ok()?;
    u64::try_from(time.as_millisecond()).ok()
}

/// Folds the events of a run into its row.
pub(super) fn end_run(taking: &Taking<'_>, time: u64, run: Uuid) -> Result<(), IndexError> {
    let (transaction, id) = (taking.transaction, run.to_string());
    let mut select =
        transaction.prepare_cached("SELECT event FROM event WHERE run = ?1 ORDER BY id")?;
    let texts = select.query_map([&id], |row| row.get::<_, String>(0))?;
    let texts = texts.collect::<Result<Vec<_>, _>>()?;
    let events: Vec<HistoryEvent> =
        texts.iter().map(|text| serde_json::from_str(text)).collect::<Result<_, _>>()?;
    let Some(folded) = fold_run(&events) else { return Ok(()) };
    let report = &folded.report;
    let statuses = report.get("resource_statuses").and_then(Value::as_object);
    let count = |is_counted: &dyn Fn(&Map<String, Value>) -> bool| {
        let statuses = statuses.into_iter().flat_map(Map::values).filter_map(Value::as_object);
        statuses.filter(|status| is_counted(status)).count()
    };
    let is_set = |status: &Map<String, Value>, name: &str| {
        status.get(name).and_then(Value::as_bool).unwrap_or_default()
    };
    let noop = report.get("noop").and_then(Value::as_bool).unwrap_or_default();
    let changed = count(&|status| is_set(status, if noop { "out_of_sync" } else { "changed" }));
    let failed = count(&|status| is_set(status, "failed") || is_set(status, "failed_to_restart"));
    let bytes: usize = transaction
        .prepare_cached("SELECT bytes FROM run WHERE id = ?1")?
        .query_row([&id], |row| row.get(0))?;
    let problem = folded.aborted.clone().or_else(|| {
        (bytes > MAX_RUN_BYTES).then(|| format!("events beyond {MAX_RUN_BYTES} bytes are left out"))
    });
    let text = |name: &str| report.get(name).and_then(Value::as_str);
    let flag = |name: &str| report.get(name).and_then(Value::as_bool);
    let version = report.get("configuration_version").and_then(value_text);
    let has_event = |status: &Map<String, Value>| {
        let events = status.get("events").and_then(Value::as_array);
        is_set(status, "skipped") || events.is_some_and(|events| !events.is_empty())
    };
    let status = match &folded.aborted {
        Some(_) => "aborted",
        None => report.get("status").and_then(Value::as_str).unwrap_or("failed"),
    };
    transaction.prepare_cached(END_RUN)?.execute(params![
        id,
        to_signed(time),
        status,
        statuses.map_or(0, Map::len),
        changed,
        failed,
        problem,
        taking.compress(&events)?,
        version,
        text("puppet_version"),
        text("cached_catalog_status"),
        flag("noop_pending"),
        flag("corrective_change"),
        count(&has_event) > 0,
    ])?;
    transaction.prepare_cached("DELETE FROM event WHERE run = ?1")?.execute([&id])?;
    if status == "unchanged" {
        // Most runs are. The list of runs has them.
        let of_lost = params![id, kind_number(HistoryKind::Run)];
        return taking.delete_rows("run = ?1 AND kind = ?2", of_lost);
    }
    let summary = format!("{changed} changed, {failed} failed");
    let message = folded.aborted.clone().unwrap_or(summary);
    insert_end_row(taking, time, run, status, message, changed > 0 && !noop)
}

/// The row that says how a run ended. It replaces the one of a run that was taken for lost.
fn insert_end_row(
    taking: &Taking<'_>,
    time: u64,
    run: Uuid,
    status: &str,
    message: String,
    changed: bool,
) -> Result<(), IndexError> {
    let id = run.to_string();
    taking.delete_rows("run = ?1 AND kind = ?2", params![id, kind_number(HistoryKind::Run)])?;
    let origin = find_origin(taking.transaction, taking.node, run)?;
    let row = NewRow {
        status,
        changed,
        failed: matches!(status, "failed" | "aborted"),
        origin,
        run: Some(id),
        message: Some(message),
        ..NewRow::of(HistoryKind::Run)
    };
    row.insert(taking, time)
}

#[cfg(test)]
mod tests {
    use super::{END_RUN, HistoryIndex};

    #[test]
    fn end_of_a_run_does_not_read_all_runs() {
        let directory = tempfile::tempdir().unwrap();
        let index = HistoryIndex::open(directory.path()).unwrap();
        let writer = index.write();
        let mut plan = writer.prepare(&format!("EXPLAIN QUERY PLAN {END_RUN}")).unwrap();
        let steps = plan.raw_query().mapped(|row| row.get::<_, String>(3));
        let steps: Vec<String> = steps.collect::<Result<_, _>>().unwrap();
        assert!(steps.iter().any(|step| step.contains("INDEX run_taken")), "{steps:#?}");
    }
}
