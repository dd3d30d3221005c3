//! Finds rows and runs.

use std::fmt;

use muster_contract::history::{
    HistoryKind, HistoryQueryInput, HistoryRow, HistoryRunRow, HistoryRunsInput, MAX_HISTORY_ROWS,
};
use muster_wire::compressed::decompress_json;
use muster_wire::history::{FoldedRun, HistoryEvent, RunCause, fold_run};
use muster_wire::identity::Identity;
use rusqlite::types::ToSql;
use rusqlite::{Connection, OptionalExtension as _, Row, params, params_from_iter};
use serde_json::{Map, json};
use uuid::Uuid;

use super::database::{HistoryIndex, to_signed};
use super::error::IndexError;
use super::row::kind_number;
use super::runs::MAX_RUN_BYTES;

/// The columns of a run, for [`read_run`].
pub(super) const RUN_COLUMNS: &str = "run.id, node.name, started, ended, status, noop, engine, who, request, release, environment, resources, changed, failed, problem";

/// Rows, and where the next page begins.
#[derive(Debug, Default)]
pub struct QueryPage {
    pub rows: Vec<HistoryRow>,
    pub next: Option<String>,
    /// Where rows that are taken later begin.
    pub position: String,
}

/// Where rows begin that were not read yet: in the order of the bucket, which is the same in all instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Position {
    revision: u64,
    /// Rows of this revision that were read.
    read: u64,
}

impl Position {
    fn parse(text: &str) -> Option<Self> {
        let (revision, read) = text.split_once('.')?;
        Some(Self { revision: revision.parse().ok()?, read: read.parse().ok()? })
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.revision, self.read)
    }
}

/// Conditions with their values. Nothing of a request is part of the text of a query.
#[derive(Default)]
pub(super) struct Conditions {
    pub(super) clauses: Vec<String>,
    values: Vec<Box<dyn ToSql>>,
}

impl Conditions {
    /// Adds a condition with one value.
    pub(super) fn add(&mut self, clause: &str, value: impl ToSql + 'static) {
        self.add_all(clause, vec![Box::new(value)]);
    }

    /// Adds a condition; each `?` is the place of a value.
    pub(super) fn add_all(&mut self, clause: &str, values: Vec<Box<dyn ToSql>>) {
        self.clauses.push(clause.to_owned());
        self.values.extend(values);
    }

    fn add_text(&mut self, column: &str, value: Option<&String>) {
        if let Some(value) = value {
            self.add(&format!("{column} = ?"), value.clone());
        }
    }

    /// At this time or later, and before the other one.
    pub(super) fn add_period(&mut self, column: &str, since: Option<u64>, until: Option<u64>) {
        if let Some(since) = since {
            self.add(&format!("{column} >= ?"), to_signed(since));
        }
        if let Some(until) = until {
            self.add(&format!("{column} < ?"), to_signed(until));
        }
    }

    /// Only these nodes; all if absent.
    pub(super) fn add_nodes(&mut self, nodes: Option<&[Identity]>) {
        if let Some(nodes) = nodes {
            let names: Vec<&str> = nodes.iter().map(Identity::as_str).collect();
            let names = serde_json::Value::from(names).to_string();
            self.add(
                "node IN (SELECT id FROM node WHERE name IN (SELECT value FROM json_each(?)))",
                names,
            );
        }
    }

    fn add_flag(&mut self, column: &str, is_wanted: Option<bool>) {
        if is_wanted == Some(true) {
            self.clauses.push(format!("{column} = 1"));
        }
    }

    pub(super) fn text(&self) -> String {
        if self.clauses.is_empty() {
            String::new()
        } else {
            format!("WHERE {}", self.clauses.join(" AND "))
        }
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &dyn ToSql> {
        self.values.iter().map(|value| &**value)
    }
}

#[derive(Debug)]
pub(super) struct FoundRow {
    pub(super) id: i64,
    pub(super) revision: u64,
    pub(super) failed: bool,
    pub(super) took: Option<u64>,
    pub(super) trace: Option<String>,
    pub(super) row: HistoryRow,
}

impl HistoryIndex {
    /// What happened, the newest first; from a position on, in the order in which it was taken. `nodes`: only of these.
    pub fn query(
        &self,
        input: &HistoryQueryInput,
        nodes: Option<&[Identity]>,
        limit: u32,
    ) -> Result<QueryPage, IndexError> {
        // Before the rows: those that are taken meanwhile are read the next time.
        let end = Position { revision: self.last_place()? + 1, read: 0 };
        let mut conditions = query_conditions(input, nodes);
        let limit = usize::try_from(limit.clamp(1, MAX_HISTORY_ROWS)).unwrap_or(1);
        if let Some(begin) = input.from.as_deref().and_then(Position::parse) {
            return self.query_from(begin, end, conditions, limit);
        }
        if let Some((time, id)) = input.after.as_deref().and_then(parse_cursor) {
            let values: Vec<Box<dyn ToSql>> = vec![Box::new(time), Box::new(id)];
            conditions.add_all("(time, happened.id) < (?, ?)", values);
        }
        let order = format!("ORDER BY time DESC, happened.id DESC LIMIT {}", limit + 1);
        let mut found = self.find_rows(&conditions, &order)?;
        let has_more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| has_more);
        let next = next.map(|found| format!("{}.{}", found.row.time, found.id));
        let rows = found.into_iter().map(|found| found.row).collect();
        Ok(QueryPage { rows, next, position: end.to_string() })
    }

    /// Rows from a position on, in the order in which they were taken.
    fn query_from(
        &self,
        begin: Position,
        end: Position,
        mut conditions: Conditions,
        limit: usize,
    ) -> Result<QueryPage, IndexError> {
        let period = [begin.revision, end.revision].map(to_signed);
        let values: Vec<Box<dyn ToSql>> = period.map(|end| Box::new(end) as Box<dyn ToSql>).into();
        conditions.add_all("revision >= ? AND revision < ?", values);
        let (read, order) = (begin.read, "ORDER BY revision, happened.id");
        let found = self.find_rows(&conditions, &format!("{order} LIMIT {limit} OFFSET {read}"))?;
        let is_full = found.len() == limit;
        let position = match found.last().filter(|_| is_full) {
            Some(last) => {
                let same = found.iter().filter(|found| found.revision == last.revision).count();
                let before = if last.revision == begin.revision { begin.read } else { 0 };
                Position {
                    revision: last.revision,
                    read: before + u64::try_from(same).unwrap_or(u64::MAX),
                }
            }
            None if begin.revision < end.revision => end,
            // This instance is behind the one that answered before.
            None => begin,
        };
        let rows = found.into_iter().map(|found| found.row).collect();
        Ok(QueryPage { rows, next: None, position: position.to_string() })
    }

    pub(super) fn find_rows(
        &self,
        conditions: &Conditions,
        order: &str,
    ) -> Result<Vec<FoundRow>, IndexError> {
        let text = format!(
            "SELECT happened.id, revision, failed, took, trace, time, node.name, kind, status, who, request, approver, schedule, agent, action, run,
                 release, resource, property, before, after, message
             FROM happened JOIN node ON node.id = happened.node {} {order}",
            conditions.text(),
        );
        let reader = self.read();
        let mut statement = reader.prepare(&text)?;
        let found = statement.query_map(params_from_iter(conditions.values()), |row| {
            let (id, revision, failed) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let (took, trace) = (row.get(3)?, row.get(4)?);
            Ok(FoundRow { id, revision, failed, took, trace, row: read_row(row)? })
        })?;
        Ok(found.collect::<Result<_, _>>()?)
    }

    /// Runs, the newest first, and whether there are more.
    pub fn runs(
        &self,
        input: &HistoryRunsInput,
        nodes: Option<&[Identity]>,
        limit: u32,
    ) -> Result<(Vec<HistoryRunRow>, bool), IndexError> {
        let mut conditions = Conditions::default();
        conditions.add_nodes(nodes);
        conditions.add_period("started", input.since, input.until);
        if input.failed == Some(true) {
            conditions.clauses.push("status IN ('failed', 'aborted')".to_owned());
        }
        if input.changed == Some(true) {
            conditions.clauses.push("changed > 0 AND noop = 0".to_owned());
        }
        let limit = usize::try_from(limit.clamp(1, MAX_HISTORY_ROWS)).unwrap_or(1);
        let text = format!(
            "SELECT {RUN_COLUMNS} FROM run JOIN node ON node.id = run.node {} ORDER BY started DESC LIMIT {}",
            conditions.text(),
            limit + 1,
        );
        let reader = self.read();
        let mut statement = reader.prepare(&text)?;
        let found = statement.query_map(params_from_iter(conditions.values()), read_run)?;
        let mut found = found.collect::<Result<Vec<_>, _>>()?;
        let has_more = found.len() > limit;
        found.truncate(limit);
        Ok((found, has_more))
    }

    /// A run of a node with its events; the last one without an id. `None` if there is none.
    pub fn report(
        &self,
        node: &str,
        run: Option<&str>,
    ) -> Result<Option<(HistoryRunRow, FoldedRun)>, IndexError> {
        let reader = self.read();
        let text = format!(
            "SELECT {RUN_COLUMNS}, events FROM run JOIN node ON node.id = run.node
             WHERE node.name = ?1 AND (?2 IS NULL OR run.id = ?2) ORDER BY started DESC LIMIT 1"
        );
        let found = reader.query_row(&text, params![node, run], |row| {
            Ok((read_run(row)?, row.get::<_, Option<String>>("events")?))
        });
        let Some((row, events)) = found.optional()? else { return Ok(None) };
        let events = match events {
            Some(events) => decompress_json(&events, 2 * MAX_RUN_BYTES)?,
            None if row.ended.is_some() => thinned_events(&row),
            None => read_events(&reader, &row.run)?,
        };
        Ok(fold_run(&events).map(|folded| (row, folded)))
    }

    /// The time of the oldest row.
    pub fn oldest(&self) -> Result<Option<u64>, IndexError> {
        Ok(self.read().query_row("SELECT min(time) FROM happened", [], |row| row.get(0))?)
    }
}

/// The conditions of a query, apart from the page.
fn query_conditions(input: &HistoryQueryInput, nodes: Option<&[Identity]>) -> Conditions {
    let mut conditions = Conditions::default();
    conditions.add_nodes(nodes);
    if let Some(kind) = input.kind {
        conditions.add("kind = ?", kind_number(kind));
    }
    conditions.add_period("time", input.since, input.until);
    let texts = [
        ("who", &input.who),
        ("run", &input.run),
        ("release", &input.release),
        ("agent", &input.agent),
        ("action", &input.action),
        ("resource", &input.resource),
    ];
    for (column, value) in texts {
        conditions.add_text(column, value.as_ref());
    }
    if let Some(id) = &input.request {
        // Ids have hexadecimal digits and hyphens, which are before `g`.
        let values: Vec<Box<dyn ToSql>> = vec![Box::new(id.clone()), Box::new(format!("{id}g"))];
        conditions.add_all("request >= ? AND request < ?", values);
    }
    if input.in_runs == Some(true) {
        conditions.clauses.push("run IS NOT NULL".to_owned());
    }
    if let Some(type_name) = &input.resource_type {
        let prefix = format!("{type_name}[");
        let values: Vec<Box<dyn ToSql>> = vec![Box::new(prefix.clone()), Box::new(prefix)];
        conditions.add_all("substr(resource, 1, length(?)) = ?", values);
    }
    conditions.add_flag("changed", input.changed);
    conditions.add_flag("failed", input.failed);
    if let Some(text) = &input.text {
        conditions
            .add("happened.id IN (SELECT rowid FROM words WHERE words MATCH ?)", match_text(text));
    }
    conditions
}

/// What is left of a run without changes whose events were deleted.
fn thinned_events(row: &HistoryRunRow) -> Vec<HistoryEvent> {
    let report = json!({
        "host": row.node, "status": row.status, "noop": row.noop, "environment": row.environment,
        "transaction_completed": true,
    });
    let (run, report) =
        (Uuid::try_parse(&row.run).unwrap_or_default(), report.as_object().cloned());
    let start = HistoryEvent::Start { run, cause: RunCause::default(), report: Map::new() };
    vec![start, HistoryEvent::End { run, report: report.unwrap_or_default() }]
}

/// The events of a run that goes on.
fn read_events(reader: &Connection, run: &str) -> Result<Vec<HistoryEvent>, IndexError> {
    let mut select = reader.prepare_cached("SELECT event FROM event WHERE run = ?1 ORDER BY id")?;
    let texts = select.query_map([run], |row| row.get::<_, String>(0))?;
    let texts = texts.collect::<Result<Vec<_>, _>>()?;
    Ok(texts.iter().map(|text| serde_json::from_str(text)).collect::<Result<_, _>>()?)
}

/// Each word has to occur. Quoted, words are no operators.
fn match_text(text: &str) -> String {
    let quoted = text.split_whitespace().map(|word| format!("\"{}\"", word.replace('"', "\"\"")));
    quoted.collect::<Vec<_>>().join(" ")
}

fn parse_cursor(text: &str) -> Option<(i64, i64)> {
    let (time, id) = text.split_once('.')?;
    Some((time.parse().ok()?, id.parse().ok()?))
}

fn read_row(row: &Row<'_>) -> rusqlite::Result<HistoryRow> {
    let text =
        |name: &str| Ok::<_, rusqlite::Error>(row.get::<_, Option<String>>(name)?.map(Into::into));
    Ok(HistoryRow {
        time: row.get("time")?,
        node: row.get("name")?,
        kind: kind_name(row.get("kind")?).into(),
        status: row.get::<_, String>("status")?.into(),
        who: text("who")?,
        request: text("request")?,
        approver: text("approver")?,
        schedule: text("schedule")?,
        agent: text("agent")?,
        action: text("action")?,
        run: text("run")?,
        release: text("release")?,
        resource: text("resource")?,
        property: text("property")?,
        before: text("before")?,
        after: text("after")?,
        message: text("message")?,
    })
}

/// The name of a stored kind.
fn kind_name(number: i64) -> &'static str {
    let mut kinds = HistoryKind::ALL.into_iter();
    kinds.find(|kind| kind_number(*kind) == number).map_or("", HistoryKind::as_str)
}

pub(super) fn read_run(row: &Row<'_>) -> rusqlite::Result<HistoryRunRow> {
    let text =
        |name: &str| Ok::<_, rusqlite::Error>(row.get::<_, Option<String>>(name)?.map(Into::into));
    Ok(HistoryRunRow {
        run: row.get("id")?,
        node: row.get("name")?,
        started: row.get("started")?,
        ended: row.get("ended")?,
        status: row.get::<_, String>("status")?.into(),
        noop: row.get("noop")?,
        engine: row.get::<_, String>("engine")?.into(),
        who: text("who")?,
        request: text("request")?,
        release: text("release")?,
        environment: text("environment")?,
        resources: row.get("resources")?,
        changed: row.get("changed")?,
        failed: row.get("failed")?,
        problem: text("problem")?,
    })
}
