//! What lists of reports show of ended runs, without reading their events.

use std::collections::BTreeSet;

use rusqlite::{Row, params_from_iter};
use serde_json::Value;

use super::database::{HistoryIndex, to_signed};
use super::error::IndexError;
use super::query::Conditions;

const COLUMNS: &str = "run.id, node.name, started, ended, status, noop, noop_pending, corrective, environment, version, puppet_version, cached_catalog, eventful";
/// The id of the newest ended run of a node.
const NEWEST: &str = "(SELECT id FROM run AS newest WHERE newest.node = node.id AND newest.ended IS NOT NULL ORDER BY newest.started DESC LIMIT 1)";

/// An ended run. Times are milliseconds since the epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportRow {
    pub run: String,
    pub node: String,
    pub started: u64,
    pub ended: u64,
    pub status: String,
    pub noop: bool,
    pub noop_pending: Option<bool>,
    pub corrective_change: Option<bool>,
    pub environment: Option<String>,
    pub configuration_version: Option<String>,
    pub puppet_version: Option<String>,
    pub cached_catalog_status: Option<String>,
    /// Whether a resource had an event, or was skipped.
    pub has_events: bool,
    /// Whether it is the newest ended run of its node.
    pub is_latest: bool,
}

/// Which runs are wanted; all where a part is absent.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReportSelection<'a> {
    pub nodes: Option<&'a BTreeSet<String>>,
    /// Ids of runs.
    pub runs: Option<&'a BTreeSet<String>>,
}

impl HistoryIndex {
    /// Ended runs, the newest first, after this one.
    pub fn reports(
        &self,
        selection: ReportSelection<'_>,
        after: Option<&ReportRow>,
        limit: usize,
    ) -> Result<Vec<ReportRow>, IndexError> {
        let mut conditions = selection.conditions();
        conditions.clauses.push("ended IS NOT NULL".to_owned());
        if let Some(after) = after {
            let place: Vec<Box<dyn rusqlite::ToSql>> =
                vec![Box::new(to_signed(after.started)), Box::new(after.run.clone())];
            conditions.add_all("(started, run.id) < (?, ?)", place);
        }
        let text = format!(
            "SELECT {COLUMNS}, run.id = {NEWEST} AS latest FROM run JOIN node ON node.id = run.node {}
             ORDER BY started DESC, run.id DESC LIMIT {limit}",
            conditions.text(),
        );
        self.find_reports(&text, &conditions)
    }

    /// The newest ended run of each node.
    pub fn latest_reports(
        &self,
        selection: ReportSelection<'_>,
    ) -> Result<Vec<ReportRow>, IndexError> {
        let conditions = selection.conditions();
        let text = format!(
            "SELECT {COLUMNS}, 1 AS latest FROM node JOIN run ON run.id = {NEWEST} {}",
            conditions.text(),
        );
        self.find_reports(&text, &conditions)
    }

    fn find_reports(
        &self,
        text: &str,
        conditions: &Conditions,
    ) -> Result<Vec<ReportRow>, IndexError> {
        let reader = self.read();
        let mut select = reader.prepare_cached(text)?;
        let found = select.query_map(params_from_iter(conditions.values()), read_report)?;
        Ok(found.collect::<Result<_, _>>()?)
    }
}

impl ReportSelection<'_> {
    fn conditions(&self) -> Conditions {
        let mut conditions = Conditions::default();
        let list = |texts: &BTreeSet<String>| {
            texts.iter().map(String::as_str).collect::<Value>().to_string()
        };
        if let Some(nodes) = self.nodes {
            let clause =
                "run.node IN (SELECT id FROM node WHERE name IN (SELECT value FROM json_each(?)))";
            conditions.add(clause, list(nodes));
        }
        if let Some(runs) = self.runs {
            conditions.add("run.id IN (SELECT value FROM json_each(?))", list(runs));
        }
        conditions
    }
}

fn read_report(row: &Row<'_>) -> rusqlite::Result<ReportRow> {
    Ok(ReportRow {
        run: row.get("id")?,
        node: row.get("name")?,
        started: row.get("started")?,
        ended: row.get("ended")?,
        status: row.get("status")?,
        noop: row.get("noop")?,
        noop_pending: row.get("noop_pending")?,
        corrective_change: row.get("corrective")?,
        environment: row.get("environment")?,
        configuration_version: row.get("version")?,
        puppet_version: row.get("puppet_version")?,
        cached_catalog_status: row.get("cached_catalog")?,
        has_events: row.get("eventful")?,
        is_latest: row.get("latest")?,
    })
}
