//! Takes messages of nodes into the index: each record once, in order. Missing records are noted as gaps.

use muster_wire::compressed::compress_json;
use muster_wire::history::{HistoryEvent, HistoryRecord, RunCause, fold_run};
use muster_wire::identity::Identity;
use rusqlite::{OptionalExtension as _, Transaction, params};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::query::RowKind;
use super::{HistoryIndex, IndexError, to_signed};

/// Longest value of a property in a row, in bytes.
const MAX_VALUE_BYTES: usize = 2048;

/// A message whose signature was verified.
#[derive(Debug)]
pub struct OpenedBatch {
    pub node: Identity,
    pub segment: Uuid,
    pub previous: Option<Uuid>,
    pub records: Vec<HistoryRecord>,
}

/// A message of the bucket; without a batch, it was refused.
#[derive(Debug)]
pub struct IngestedMessage {
    pub revision: u64,
    /// When the broker stored it, in milliseconds since the epoch.
    pub time: u64,
    pub batch: Option<OpenedBatch>,
}

impl HistoryIndex {
    /// Takes messages, all or none. Returns how many records were new.
    pub fn ingest(&self, messages: &[IngestedMessage]) -> Result<usize, IndexError> {
        let mut writer = self.write();
        let transaction = writer.transaction()?;
        let mut new = 0;
        for message in messages {
            if let Some(batch) = &message.batch {
                new += take_batch(&transaction, batch, message.time)?;
            }
        }
        if let Some(last) = messages.iter().map(|message| message.revision).max() {
            transaction.execute(
                "INSERT INTO progress (id, revision) VALUES (1, ?1)
                 ON CONFLICT (id) DO UPDATE SET revision = ?1",
                [to_signed(last)],
            )?;
        }
        transaction.commit()?;
        Ok(new)
    }
}

/// How far the records of a node were taken.
#[derive(Debug)]
struct NodePosition {
    id: i64,
    segment: Option<Uuid>,
    seq: u64,
}

fn take_batch(
    transaction: &Transaction<'_>,
    batch: &OpenedBatch,
    stored_at: u64,
) -> Result<usize, IndexError> {
    let mut position = find_node(transaction, &batch.node)?;
    if position.segment.is_some_and(|known| batch.segment < known) {
        // Ids of segments begin with the time: this one was read before.
        return Ok(0);
    }
    let mut gaps = Vec::new();
    if position.segment != Some(batch.segment) {
        if batch.previous != position.segment {
            gaps.push("records before this time are missing".to_owned());
        }
        (position.segment, position.seq) = (Some(batch.segment), 0);
    }
    let mut new = 0;
    for record in &batch.records {
        if record.seq <= position.seq {
            continue;
        }
        let missing = record.seq - position.seq - 1;
        if missing > 0 {
            gaps.push(format!("{missing} records before this time are missing"));
        }
        for gap in gaps.drain(..) {
            let row =
                Row { status: "gap", message: Some(gap), failed: true, ..Row::of(RowKind::Gap) };
            row.insert(transaction, position.id, record.time.min(stored_at))?;
        }
        position.seq = record.seq;
        // A node whose clock is ahead does not write into the future.
        take_record(transaction, position.id, record.time.min(stored_at), &record.event)?;
        new += 1;
    }
    let segment = position.segment.map(|segment| segment.to_string());
    transaction
        .prepare_cached("UPDATE node SET segment = ?2, seq = ?3 WHERE id = ?1")?
        .execute(params![position.id, segment, to_signed(position.seq)])?;
    Ok(new)
}

fn find_node(transaction: &Transaction<'_>, node: &Identity) -> Result<NodePosition, IndexError> {
    let name = node.as_str();
    let mut insert =
        transaction.prepare_cached("INSERT INTO node (name) VALUES (?1) ON CONFLICT DO NOTHING")?;
    insert.execute([name])?;
    let mut select =
        transaction.prepare_cached("SELECT id, segment, seq FROM node WHERE name = ?1")?;
    let found = select.query_row([name], |row| {
        let segment: Option<String> = row.get(1)?;
        let segment = segment.and_then(|segment| Uuid::try_parse(&segment).ok());
        Ok(NodePosition { id: row.get(0)?, segment, seq: row.get(2)? })
    })?;
    Ok(found)
}

fn take_record(
    transaction: &Transaction<'_>,
    node: i64,
    time: u64,
    event: &HistoryEvent,
) -> Result<(), IndexError> {
    match event {
        HistoryEvent::Audit { refused, line } => {
            if let Some(row) = Row::of_audit(*refused, line) {
                row.insert(transaction, node, time)?;
            }
            return Ok(());
        }
        HistoryEvent::Start { run, cause, report } => {
            begin_run(transaction, node, time, *run, cause, report)?;
        }
        HistoryEvent::Resource { run, status } => {
            take_resource(transaction, node, time, *run, status)?;
        }
        HistoryEvent::Log { .. }
        | HistoryEvent::End { .. }
        | HistoryEvent::Aborted { .. }
        | HistoryEvent::Unknown => {}
    }
    let Some(run) = event.run() else { return Ok(()) };
    if !is_open_run(transaction, node, run)? {
        return Ok(());
    }
    transaction
        .prepare_cached("INSERT INTO event (run, event) VALUES (?1, ?2)")?
        .execute(params![run.to_string(), serde_json::to_string(event)?])?;
    if matches!(event, HistoryEvent::End { .. } | HistoryEvent::Aborted { .. }) {
        end_run(transaction, node, time, run)?;
    }
    Ok(())
}

/// Whether the run of this node has begun and not ended: no node writes into the run of another one.
fn is_open_run(transaction: &Transaction<'_>, node: i64, run: Uuid) -> Result<bool, IndexError> {
    let mut select = transaction
        .prepare_cached("SELECT 1 FROM run WHERE id = ?1 AND node = ?2 AND ended IS NULL")?;
    Ok(select.exists(params![run.to_string(), node])?)
}

fn begin_run(
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

/// Who or what is behind a change.
#[derive(Debug, Default)]
struct Origin {
    who: Option<String>,
    request: Option<String>,
    release: Option<String>,
    agent: Option<String>,
    action: Option<String>,
    is_run: bool,
}

/// Of a run, or of the request whose record precedes what it changed.
fn find_origin(transaction: &Transaction<'_>, node: i64, run: Uuid) -> Result<Origin, IndexError> {
    let id = run.to_string();
    let mut of_run = transaction
        .prepare_cached("SELECT who, request, release FROM run WHERE id = ?1 AND node = ?2")?;
    let found = of_run.query_row(params![id, node], |row| {
        let (who, request, release) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(Origin { who, request, release, is_run: true, ..Origin::default() })
    });
    let mut of_request = transaction.prepare_cached(
        "SELECT who, agent, action FROM happened WHERE request = ?1 AND node = ?2 AND kind = ?3 LIMIT 1",
    )?;
    let mut find_request = |request: &str| {
        of_request
            .query_row(params![request, node, RowKind::Request.number()], |row| {
                let (who, agent, action) = (row.get(0)?, row.get(1)?, row.get(2)?);
                let request = Some(request.to_owned());
                Ok(Origin { who, request, agent, action, ..Origin::default() })
            })
            .optional()
    };
    let Some(mut origin) = found.optional()? else {
        return Ok(find_request(&id)?.unwrap_or_default());
    };
    if let Some(request) = origin.request.as_deref().map_or(Ok(None), &mut find_request)? {
        (origin.agent, origin.action) = (request.agent, request.action);
    }
    Ok(origin)
}

fn take_resource(
    transaction: &Transaction<'_>,
    node: i64,
    time: u64,
    run: Uuid,
    status: &Map<String, Value>,
) -> Result<(), IndexError> {
    let events = status.get("events").and_then(Value::as_array).filter(|events| !events.is_empty());
    let Some(events) = events else { return Ok(()) };
    let origin = find_origin(transaction, node, run)?;
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    for event in events {
        let Some(event_status) = event.get("status").and_then(Value::as_str) else { continue };
        let row = Row {
            status: event_status,
            changed: event_status == "success",
            failed: event_status == "failure",
            who: origin.who.clone(),
            request: origin.request.clone(),
            release: origin.release.clone(),
            agent: origin.agent.clone(),
            action: origin.action.clone(),
            run: origin.is_run.then(|| run.to_string()),
            resource: text(status.get("resource")),
            property: text(event.get("property")),
            before: event.get("previous_value").and_then(value_text),
            after: event.get("desired_value").and_then(value_text),
            message: text(event.get("message")),
            ..Row::of(RowKind::Change)
        };
        row.insert(transaction, node, time)?;
    }
    Ok(())
}

/// Inputs as they are written in a command: `type=file name=/etc/motd`.
fn describe_inputs(inputs: &Map<String, Value>) -> String {
    let input = |(name, value): (&String, &Value)| {
        let length = value.get("sha256").and(value.get("bytes")).and_then(Value::as_u64);
        match length {
            // A long value is recorded as its size and hash.
            Some(bytes) => format!("{name}=({bytes} bytes)"),
            None => format!("{name}={}", value_text(value).unwrap_or_default()),
        }
    };
    inputs.iter().map(input).collect::<Vec<_>>().join(" ")
}

/// A value as text; a list or a map as JSON.
fn value_text(value: &Value) -> Option<String> {
    let mut text = match value {
        Value::Null => return None,
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    text.truncate(text.floor_char_boundary(MAX_VALUE_BYTES));
    Some(text)
}

/// Folds the events of a run into its row.
fn end_run(
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
            folded.aborted,
            compress_json(&events)?,
        ])?;
    transaction.prepare_cached("DELETE FROM event WHERE run = ?1")?.execute([&id])?;
    let origin = find_origin(transaction, node, run)?;
    let summary = format!("{changed} changed, {failed} failed");
    let row = Row {
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
        ..Row::of(RowKind::Run)
    };
    row.insert(transaction, node, time)
}

/// A new row of the table `happened`.
#[derive(Debug)]
struct Row<'a> {
    kind: RowKind,
    status: &'a str,
    changed: bool,
    failed: bool,
    who: Option<String>,
    request: Option<String>,
    approver: Option<String>,
    schedule: Option<String>,
    agent: Option<String>,
    action: Option<String>,
    run: Option<String>,
    release: Option<String>,
    resource: Option<String>,
    property: Option<String>,
    before: Option<String>,
    after: Option<String>,
    message: Option<String>,
}

impl<'a> Row<'a> {
    fn of(kind: RowKind) -> Self {
        Self {
            kind,
            status: "",
            changed: false,
            failed: false,
            who: None,
            request: None,
            approver: None,
            schedule: None,
            agent: None,
            action: None,
            run: None,
            release: None,
            resource: None,
            property: None,
            before: None,
            after: None,
            message: None,
        }
    }

    /// A decision about a request. The record that an action has started gives way to the one of its outcome.
    fn of_audit(refused: bool, line: &'a Map<String, Value>) -> Option<Self> {
        let text = |name: &str| line.get(name).and_then(Value::as_str).map(str::to_owned);
        let verdict = line.get("verdict").and_then(Value::as_str)?;
        let code = line.get("statuscode").and_then(Value::as_u64);
        let inputs = line.get("data").and_then(Value::as_object).map(describe_inputs);
        let reason = text("reason").filter(|reason| reason != verdict);
        // The rule says why a request was denied.
        let rule = text("rule").filter(|_| verdict == "denied");
        let parts: Vec<String> =
            [inputs, reason, rule, text("claimed")].into_iter().flatten().collect();
        let message = (!parts.is_empty()).then(|| parts.join("; "));
        Some(Self {
            status: verdict,
            changed: verdict == "executed" && code == Some(0),
            failed: refused || code.is_some_and(|code| code != 0),
            who: text("caller"),
            request: text("request"),
            approver: text("approver"),
            schedule: text("schedule"),
            agent: text("agent"),
            action: text("action"),
            message,
            ..Self::of(RowKind::Request)
        })
    }

    fn insert(
        &self,
        transaction: &Transaction<'_>,
        node: i64,
        time: u64,
    ) -> Result<(), IndexError> {
        if self.kind == RowKind::Request && self.status != "started" {
            self.replace_started(transaction, node)?;
        }
        transaction
            .prepare_cached(
                "INSERT INTO happened (time, node, kind, status, changed, failed, who, request, approver, schedule,
                     agent, action, run, release, resource, property, before, after, message)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)",
            )?
            .execute(params![
                to_signed(time),
                node,
                self.kind.number(),
                self.status,
                self.changed,
                self.failed,
                self.who,
                self.request,
                self.approver,
                self.schedule,
                self.agent,
                self.action,
                self.run,
                self.release,
                self.resource,
                self.property,
                self.before,
                self.after,
                self.message,
            ])?;
        let id = transaction.last_insert_rowid();
        let words = [&self.resource, &self.property, &self.before, &self.after, &self.message]
            .into_iter()
            .chain([&self.who, &self.agent, &self.action])
            .flatten()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(" ");
        transaction
            .prepare_cached("INSERT INTO words (rowid, text) VALUES (?1, ?2)")?
            .execute(params![id, words])?;
        Ok(())
    }

    fn replace_started(&self, transaction: &Transaction<'_>, node: i64) -> Result<(), IndexError> {
        let Some(request) = &self.request else { return Ok(()) };
        let mut started = transaction.prepare_cached(
            "DELETE FROM happened WHERE request = ?1 AND node = ?2 AND kind = ?3 AND status = 'started' RETURNING id",
        )?;
        let ids = started.query_map(params![request, node, RowKind::Request.number()], |row| {
            row.get::<_, i64>(0)
        })?;
        for id in ids {
            transaction.prepare_cached("DELETE FROM words WHERE rowid = ?1")?.execute([id?])?;
        }
        Ok(())
    }
}
