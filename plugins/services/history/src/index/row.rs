//! A new row of the table `happened`, with its words.

use std::sync::{Mutex, PoisonError};

use muster_contract::history::HistoryKind;
use muster_wire::compressed::JsonCompressor;
use muster_wire::history::HistoryEvent;
use rusqlite::{Params, Transaction, params};
use serde_json::{Map, Value};

use super::database::to_signed;
use super::error::IndexError;
use super::origin::Origin;

/// Longest value of a property in a row, in bytes.
const MAX_VALUE_BYTES: usize = 2048;

/// A kind as it is stored.
pub(super) fn kind_number(kind: HistoryKind) -> i64 {
    match kind {
        HistoryKind::Request => 1,
        HistoryKind::Change => 2,
        HistoryKind::Run => 3,
        HistoryKind::Gap => 4,
    }
}

/// What a message of a node is taken with.
#[derive(Debug)]
pub(super) struct Taking<'a> {
    pub(super) transaction: &'a Transaction<'a>,
    pub(super) node: i64,
    /// The revision of the message, after those of buckets before this one.
    pub(super) revision: u64,
    pub(super) compressor: &'a Mutex<JsonCompressor>,
}

impl Taking<'_> {
    /// The events of a run as they are stored.
    pub(super) fn compress(&self, events: &[HistoryEvent]) -> Result<String, IndexError> {
        let mut compressor = self.compressor.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(compressor.compress(events)?)
    }

    /// Deletes rows of `happened`, with their words.
    pub(super) fn delete_rows(
        &self,
        condition: &str,
        values: impl Params,
    ) -> Result<(), IndexError> {
        let text = format!("DELETE FROM happened WHERE {condition} RETURNING id");
        let mut deleted = self.transaction.prepare_cached(&text)?;
        let ids = deleted.query_map(values, |row| row.get::<_, i64>(0))?;
        for id in ids {
            self.transaction
                .prepare_cached("DELETE FROM words WHERE rowid = ?1")?
                .execute([id?])?;
        }
        Ok(())
    }
}

/// A new row of the table `happened`.
#[derive(Debug)]
pub(super) struct NewRow<'a> {
    pub(super) kind: HistoryKind,
    pub(super) status: &'a str,
    pub(super) changed: bool,
    pub(super) failed: bool,
    pub(super) origin: Origin,
    pub(super) run: Option<String>,
    pub(super) resource: Option<String>,
    pub(super) property: Option<String>,
    pub(super) before: Option<String>,
    pub(super) after: Option<String>,
    pub(super) message: Option<String>,
    pub(super) took: Option<i64>,
    pub(super) trace: Option<String>,
}

impl<'a> NewRow<'a> {
    pub(super) fn of(kind: HistoryKind) -> Self {
        Self {
            kind,
            status: "",
            changed: false,
            failed: false,
            origin: Origin::default(),
            run: None,
            resource: None,
            property: None,
            before: None,
            after: None,
            message: None,
            took: None,
            trace: None,
        }
    }

    /// A decision about a request. The record that an action has started gives way to the one of its outcome.
    pub(super) fn of_audit(refused: bool, line: &'a Map<String, Value>) -> Option<Self> {
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
        let has_failed = code.is_some_and(|code| code != 0);
        Some(Self {
            // The verdict says that the action was run, and not how it ended.
            status: if verdict == "executed" && has_failed { "failed" } else { verdict },
            changed: verdict == "executed" && code == Some(0),
            failed: refused || has_failed,
            origin: Origin {
                who: text("caller"),
                request: text("request"),
                approver: text("approver"),
                schedule: text("schedule"),
                agent: text("agent"),
                action: text("action"),
                ..Origin::default()
            },
            message,
            took: line.get("took_ms").and_then(Value::as_u64).map(to_signed),
            trace: text("traceparent"),
            ..Self::of(HistoryKind::Request)
        })
    }

    pub(super) fn insert(&self, taking: &Taking<'_>, time: u64) -> Result<(), IndexError> {
        let Taking { transaction, node, revision, .. } = taking;
        let origin = &self.origin;
        if self.kind == HistoryKind::Request && self.status != "started" {
            self.replace_started(taking)?;
        }
        transaction
            .prepare_cached(
                "INSERT INTO happened (revision, time, node, kind, status, changed, failed, who, request, approver,
                     schedule, agent, action, run, release, resource, property, before, after, message, took, trace)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22)",
            )?
            .execute(params![
                to_signed(*revision),
                to_signed(time),
                node,
                kind_number(self.kind),
                self.status,
                self.changed,
                self.failed,
                origin.who,
                origin.request,
                origin.approver,
                origin.schedule,
                origin.agent,
                origin.action,
                self.run,
                origin.release,
                self.resource,
                self.property,
                self.before,
                self.after,
                self.message,
                self.took,
                self.trace,
            ])?;
        let id = transaction.last_insert_rowid();
        let words = [&self.resource, &self.property, &self.before, &self.after, &self.message]
            .into_iter()
            .chain([&origin.who, &origin.agent, &origin.action])
            .flatten()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(" ");
        transaction
            .prepare_cached("INSERT INTO words (rowid, text) VALUES (?1, ?2)")?
            .execute(params![id, words])?;
        Ok(())
    }

    fn replace_started(&self, taking: &Taking<'_>) -> Result<(), IndexError> {
        let Some(request) = &self.origin.request else { return Ok(()) };
        taking.delete_rows(
            "request = ?1 AND node = ?2 AND kind = ?3 AND status = 'started'",
            params![request, taking.node, kind_number(HistoryKind::Request)],
        )
    }
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
pub(super) fn value_text(value: &Value) -> Option<String> {
    let mut text = match value {
        Value::Null => return None,
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    text.truncate(text.floor_char_boundary(MAX_VALUE_BYTES));
    Some(text)
}
