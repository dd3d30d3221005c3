//! Runs in the order in which their ends reached the index, for a reader that goes on where it was.
//!
//! Not by time: the clocks of nodes differ, and what a node reports after an hour without a broker is older than what others have reported.

use rusqlite::{Connection, OptionalExtension as _, params};
use serde::{Deserialize, Serialize};

use super::database::HistoryIndex;
use super::error::IndexError;

/// The place of a run in this order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunCursor {
    taken: i64,
    /// Its id: an index that was built again has another order.
    pub run: String,
}

/// A run that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedRun {
    pub cursor: RunCursor,
    pub node: String,
}

impl HistoryIndex {
    /// The first runs that ended after this one; from the oldest without one, and after one that is not in the index.
    pub fn ended_runs(
        &self,
        after: Option<&RunCursor>,
        limit: usize,
    ) -> Result<Vec<EndedRun>, IndexError> {
        let reader = self.read();
        let taken = find_place(&reader, after)?;
        let mut select = reader.prepare_cached(
            "SELECT taken, run.id, name FROM run JOIN node ON node.id = run.node
             WHERE taken > ?1 ORDER BY taken LIMIT ?2",
        )?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let runs = select.query_map(params![taken, limit], |row| {
            let cursor = RunCursor { taken: row.get(0)?, run: row.get(1)? };
            Ok(EndedRun { cursor, node: row.get(2)? })
        })?;
        Ok(runs.collect::<Result<_, _>>()?)
    }

    /// The last run in this order.
    pub fn last_ended_run(&self) -> Result<Option<RunCursor>, IndexError> {
        let text = "SELECT taken, id FROM run WHERE taken IS NOT NULL ORDER BY taken DESC LIMIT 1";
        let found = self
            .read()
            .query_row(text, [], |row| Ok(RunCursor { taken: row.get(0)?, run: row.get(1)? }));
        Ok(found.optional()?)
    }

    /// The trace context of the request that began a run.
    pub fn trace_of_run(&self, run: &str) -> Result<Option<String>, IndexError> {
        let text = "SELECT trace FROM run JOIN happened ON happened.request = run.request AND happened.node = run.node
             WHERE run.id = ?1 AND trace IS NOT NULL LIMIT 1";
        Ok(self.read().query_row(text, [run], |row| row.get(0)).optional()?)
    }

    /// How many runs ended after this one.
    pub fn count_ended_runs(&self, after: Option<&RunCursor>) -> Result<usize, IndexError> {
        let reader = self.read();
        let taken = find_place(&reader, after)?;
        let mut count = reader.prepare_cached("SELECT count(*) FROM run WHERE taken > ?1")?;
        Ok(count.query_row([taken], |row| row.get(0))?)
    }
}

/// The place of a cursor; 0 if the index does not have its run there.
fn find_place(reader: &Connection, cursor: Option<&RunCursor>) -> Result<i64, IndexError> {
    let Some(cursor) = cursor else { return Ok(0) };
    let mut select = reader.prepare_cached("SELECT taken FROM run WHERE taken = ?1 AND id = ?2")?;
    let found = select.query_row(params![cursor.taken, cursor.run], |row| row.get(0)).optional()?;
    Ok(found.unwrap_or_default())
}
