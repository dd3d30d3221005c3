//! Figures about the fleet for monitoring: how the last runs ended, which nodes have none, and what differs.

use std::collections::BTreeMap;

use rusqlite::params;

use super::database::{HistoryIndex, to_signed};
use super::error::IndexError;

/// Figures about the last runs of all nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HistoryFigures {
    /// Nodes by the status of their last run: `running`, `changed`, `unchanged`, `failed`, `aborted`.
    pub last_runs: BTreeMap<String, u64>,
    /// Nodes whose last run began too long ago.
    pub silent: u64,
    /// Nodes that differ from their last catalog.
    pub differing: u64,
    /// Since when the first of them differs, in milliseconds since the epoch.
    pub differing_since: Option<u64>,
}

impl HistoryIndex {
    /// `silent_before`: a node whose last run began earlier is silent. A node without any run is not counted.
    pub fn figures(&self, silent_before: u64) -> Result<HistoryFigures, IndexError> {
        let mut figures = HistoryFigures::default();
        {
            let reader = self.read();
            let mut select = reader.prepare_cached(
                "SELECT last.status, count(*), sum(last.started < ?1) FROM node JOIN run AS last ON last.id = (
                     SELECT id FROM run WHERE run.node = node.id ORDER BY started DESC LIMIT 1
                 ) GROUP BY last.status",
            )?;
            let found = select.query_map([to_signed(silent_before)], |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, u64>(1)?, row.get::<_, u64>(2)?))
            })?;
            for status in found {
                let (status, nodes, silent) = status?;
                figures.last_runs.insert(status, nodes);
                figures.silent += silent;
            }
            let mut select = reader.prepare_cached(
                "SELECT count(*) FROM node WHERE EXISTS (
                     SELECT 1 FROM happened WHERE status = 'noop' AND resource IS NOT NULL AND run = (
                         SELECT id FROM run WHERE run.node = node.id AND ended IS NOT NULL AND status <> 'aborted'
                         ORDER BY started DESC LIMIT 1
                     )
                 )",
            )?;
            figures.differing = select.query_row(params![], |row| row.get(0))?;
        }
        if figures.differing > 0 {
            figures.differing_since = self.drift(None)?.rows.iter().map(|row| row.since).min();
        }
        Ok(figures)
    }
}
