//! Takes messages of nodes into the index: each record once, in order. Missing records are noted as gaps.

use std::sync::Mutex;

use muster_contract::history::HistoryKind;
use muster_wire::compressed::JsonCompressor;
use muster_wire::history::{HistoryEvent, HistoryRecord};
use muster_wire::identity::Identity;
use rusqlite::{OptionalExtension as _, Transaction, params};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::database::{HistoryIndex, to_signed};
use super::error::IndexError;
use super::origin::find_origin;
use super::row::{NewRow, Taking, value_text};
use super::runs::{self, AddedEvent};

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
        let base = transaction.query_row("SELECT base FROM progress", [], |row| row.get(0));
        let base: u64 = base.optional()?.unwrap_or_default();
        let mut new = 0;
        for message in messages {
            if let Some(batch) = &message.batch {
                new += take_batch(&transaction, batch, message, base, &self.compressor)?;
            }
        }
        if let Some(last) = messages.iter().max_by_key(|message| message.revision) {
            transaction.execute(
                "INSERT INTO progress (id, revision, time) VALUES (1, ?1, ?2)
                 ON CONFLICT (id) DO UPDATE SET revision = ?1, time = ?2",
                [to_signed(last.revision), to_signed(last.time)],
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
    message: &IngestedMessage,
    base: u64,
    compressor: &Mutex<JsonCompressor>,
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
    let revision = base + message.revision;
    let taking = Taking { transaction, node: position.id, revision, compressor };
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
            let row = NewRow {
                status: "gap",
                message: Some(gap),
                failed: true,
                ..NewRow::of(HistoryKind::Gap)
            };
            row.insert(&taking, record.time.min(message.time))?;
        }
        position.seq = record.seq;
        // A node whose clock is ahead does not write into the future.
        take_record(&taking, record.time.min(message.time), record)?;
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

fn take_record(taking: &Taking<'_>, time: u64, record: &HistoryRecord) -> Result<(), IndexError> {
    let event = &record.event;
    if let HistoryEvent::Audit { refused, line } = event {
        if let Some(row) = NewRow::of_audit(*refused, line) {
            row.insert(taking, time)?;
        }
        return Ok(());
    }
    let Some(run) = event.run() else { return Ok(()) };
    if let HistoryEvent::Start { cause, report, .. } = event {
        runs::begin_run(taking, time, run, cause, report)?;
    }
    let added = runs::add_event(taking, run, record)?;
    match event {
        // What a request changed belongs to no run.
        HistoryEvent::Resource { status, .. } if added != AddedEvent::Refused => {
            take_resource(taking, time, run, status)
        }
        HistoryEvent::End { .. } | HistoryEvent::Aborted { .. } if added == AddedEvent::Added => {
            runs::end_run(taking, time, run)
        }
        _ => Ok(()),
    }
}

/// Takes the changes of a resource. In a run, they replace those of an earlier status of the resource, which was derived from Puppet's log.
fn take_resource(
    taking: &Taking<'_>,
    time: u64,
    run: Uuid,
    status: &Map<String, Value>,
) -> Result<(), IndexError> {
    let events = status.get("events").and_then(Value::as_array).filter(|events| !events.is_empty());
    let Some(events) = events else { return Ok(()) };
    let origin = find_origin(taking.transaction, taking.node, run)?;
    if let (true, Some(resource)) = (origin.is_run, status.get("resource").and_then(Value::as_str))
    {
        taking.delete_rows("run = ?1 AND resource = ?2", params![run.to_string(), resource])?;
    }
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    for event in events {
        let Some(event_status) = event.get("status").and_then(Value::as_str) else { continue };
        let row = NewRow {
            status: event_status,
            changed: event_status == "success",
            failed: event_status == "failure",
            origin: origin.clone(),
            run: origin.is_run.then(|| run.to_string()),
            resource: text(status.get("resource")),
            property: text(event.get("property")),
            before: event.get("previous_value").and_then(value_text),
            after: event.get("desired_value").and_then(value_text),
            message: text(event.get("message")),
            ..NewRow::of(HistoryKind::Change)
        };
        row.insert(taking, time)?;
    }
    Ok(())
}
