//! Runs: their events while they go on, and one row when they end.

use muster_contract::history::HistoryKind;
use muster_wire::compressed::compress_json;
use muster_wire::history::{HistoryEvent, RunCause, fold_run};
use rusqlite::{OptionalExtension as _, Transaction, params};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::database::to_signed;
use super::error::IndexError;
use super::origin::find_origin;
use super::row::NewRow;

/// JSON of the events of one run: of a run of 30,000 resources. Further ones are left out.
pub(super) const MAX_RUN_BYTES: usize = 32 * 1024 * 1024;

pub(super) fn begin_run(
    transaction: &Transaction<'_>,
    node: i64,
    time: u64,
    run: Uuid,
    cause: &RunCause,
    report: &Map<String, Value>,
) -> Result<(), IndexError> {
    let mut insert = transaction.prepare_cached(
        "INSERT INTO run (id, node, started, status, noop, engine, who, request, release, environment)
         VALUES (?1, ?2, ?3, 'running', ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT DO NOTHING",
    )?;
    insert.execute(params![
        run.to_string(),
        node,
        to_signed(time),
        report.get("noop").and_then(Value::as_bool).unwrap_or_default(),
        cause.engine,
        cause.caller,
        cause.request.map(|request| request.to_string()),
        cause.release,
        report.get("environment").and_then(Value::as_str),
    ])?;
    Ok(())
}

/// Adds an event to a run of this node that has begun and not ended, and returns whether there is one: no node writes into the run of another one. Beyond a
/// bound, only the end is added.
pub(super) fn add_event(
    transaction: &Transaction<'_>,
    node: i64,
    run: Uuid,
    event: &HistoryEvent,
    is_end: bool,
) -> Result<bool, IndexError> {
    let (id, text) = (run.to_string(), serde_json::to_string(event)?);
    let mut size = transaction.prepare_cached(
        "UPDATE run SET bytes = bytes + ?3 WHERE id = ?1 AND node = ?2 AND ended IS NULL RETURNING bytes",
    )?;
    let size = size.query_row(params![id, node, text.len()], |row| row.get::<_, usize>(0));
    let Some(size) = size.optional()? else { return Ok(false) };
    if is_end || size <= MAX_RUN_BYTES {
        transaction
            .prepare_cached("INSERT INTO event (run, event) VALUES (?1, ?2)")?
            .execute(params![id, text])?;
    }
    Ok(true)
}

/// Folds the events of a run into its row.
pub(super) fn end_run(
    transaction: &Transaction<'_>,
    node: i64,
    time: u64,
    run: Uuid,
) -> Result<(), IndexError> {
    let id = run.to_string();
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
    let status = match &folded.aborted {
        Some(_) => "aborted",
        None => report.get("status").and_then(Value::as_str).unwrap_or("failed"),
    };
    transaction
        .prepare_cached(
            "UPDATE run SET ended = ?2, status = ?3, resources = ?4, changed = ?5, failed = ?6, problem = ?7, events = ?8
             WHERE id = ?1",
        )?
        .execute(params![
            id,
            to_signed(time),
            status,
            statuses.map_or(0, Map::len),
            changed,
            failed,
            problem,
            compress_json(&events)?,
        ])?;
    transaction.prepare_cached("DELETE FROM event WHERE run = ?1")?.execute([&id])?;
    let origin = find_origin(transaction, node, run)?;
    let summary = format!("{changed} changed, {failed} failed");
    let row = NewRow {
        status,
        changed: changed > 0 && !noop,
        failed: matches!(status, "failed" | "aborted"),
        who: origin.who,
        request: origin.request,
        release: origin.release,
        agent: origin.agent,
        action: origin.action,
        run: Some(id),
        message: Some(folded.aborted.unwrap_or(summary)),
        ..NewRow::of(HistoryKind::Run)
    };
    row.insert(transaction, node, time)
}
